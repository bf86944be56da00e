"""Networks: Flax Linen modules behind one step/unroll contract (`networks.contract.Network`)."""
