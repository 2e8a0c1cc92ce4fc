"""The rule table and the reference model: what the system must do."""
