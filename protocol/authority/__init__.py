"""Who allowed what: mandates, approvals, grants, receipts, and how they are signed and shown."""
