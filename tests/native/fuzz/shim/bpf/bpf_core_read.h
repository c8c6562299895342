/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Stands in for libbpf's header: outside the kernel there are no types to look up. */
#ifndef DCGYM_FUZZ_BPF_CORE_READ_H
#define DCGYM_FUZZ_BPF_CORE_READ_H

#define bpf_core_type_id_kernel(type) 0

#endif
