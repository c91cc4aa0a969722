"""What auditors do with a store: verify it on all processors, take it away, bring it back, and anchor it outside."""
