"""The experiment on revisions by replay: normal rows and corrections by every strategy."""
