"""Plans of flows, by name, from files or from mappings."""
