"""The actors that run granted steps through their node's tool hosts."""
