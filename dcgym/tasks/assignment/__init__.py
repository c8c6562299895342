"""Which server gets each job: one decision a job, in the order of their arrival."""
