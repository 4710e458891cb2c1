"""The assumptions of the theme `nests` that several statements share."""

A1 = "assumption 1: Σ v_L yᵀ ≠ 0, and Σ v_L v_Lᵀ has full rank"
A2 = "assumption 2: the loss is differentiable and convex"
A3 = "assumption 3: M ≥ N_o"
A4 = "assumption 4: [W_0 … W_{L−1}] has full column rank"
