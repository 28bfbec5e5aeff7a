"""Properties of a plan that follow from its operators."""
