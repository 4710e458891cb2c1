"""The track record of findings: the counts that `bathyscope explain` and severities rest on."""
