"""Policies that place single jobs."""

from dcgym.policies.assignment.jobs import JobRulePolicy, LeastPolicy, RandomJobPolicy

__all__ = ["JobRulePolicy", "LeastPolicy", "RandomJobPolicy"]
