"""The pure words and rules of duly: no process, file, clock or randomness lives here.

Reading order: ``wire`` (how values become bytes), ``plan`` (what is going to happen), ``authority`` (who allowed
it), ``judgement`` (whether it is right), ``log`` (how it is recorded), ``machine`` (how a run moves), ``views``
(what is shown). Each folder imports only the folders before it.
"""
