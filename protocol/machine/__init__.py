"""How a run moves: stimuli come in, events and effects go out."""
