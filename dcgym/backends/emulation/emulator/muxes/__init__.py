"""Switches as hardware muxes beside software ones, as in Duet: tables, controller, network."""
