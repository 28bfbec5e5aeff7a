"""Plans that mean the same and cost less: rules, the driver, the cost model."""
