"""Pictures as half blocks, which every terminal can show: formats read within bounds, pixels sampled for cells."""
