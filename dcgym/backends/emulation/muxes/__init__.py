"""Networks whose switches are muxes, from the outside."""
