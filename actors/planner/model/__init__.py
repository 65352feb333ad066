"""The planner's work with a model: plans, arguments, reason steps, turns of a direct run."""
