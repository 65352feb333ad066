"""The control plane: each actor its own Ray process. Only this room imports ray."""
