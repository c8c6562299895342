"""What tasks mean on the protocols of backends: one binding for each kind of task."""
