"""The rules, one file per subject. A rule is a function from the (defaulted) object to its findings."""
