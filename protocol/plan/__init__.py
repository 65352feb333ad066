"""What a plan is: requests, steps, references, tools, meaning, routes and levels."""
