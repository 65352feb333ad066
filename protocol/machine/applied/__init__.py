"""What each kind of event does to a run, by theme. ``evolve`` picks the function; nothing is judged here."""
