package node

// copyFigures are those of digests and repairs.
type copyFigures struct {
	checks   *checker
	repairer *repairer
	damages  int
}

func copyMetrics() []metric {
	return []metric{
		counter("digest_ranges_total", "Closed ranges of shards whose copies were compared.", func(f *figures) float64 { return float64(f.copies.checks.ranges.Load()) }),
		counter("digest_passes_total", "Times that all closed ranges of the shards led here were gone through.", func(f *figures) float64 { return float64(f.copies.checks.passes.Load()) }),
		counter("digest_samples_total", "Samples that were read for digests.", func(f *figures) float64 { return float64(f.copies.checks.samples.Load()) }),
		counter("digest_mismatches_total", "Copies of ranges that were not what they should be.", func(f *figures) float64 { return float64(f.copies.checks.mismatches.Load()) }),
		counter("digest_undecided_total", "Ranges that could not be compared, since copies did not answer or were being written.", func(f *figures) float64 { return float64(f.copies.checks.undecided.Load()) }),
		counter("digest_unreadable_total", "Ranges that could not be compared, since they could not be read here.", func(f *figures) float64 { return float64(f.copies.checks.unreadable.Load()) }),
		gauge("digest_conflicts", "Ranges whose copies differ though the checksums of all hold.", func(f *figures) float64 { return float64(f.copies.checks.conflicts.Load()) }),
		gauge("damaged_parts", "Parts of segments that cannot be read, by shard.", func(f *figures) float64 { return float64(f.copies.damages) }),
		gauge("repairs_pending", "Ranges that wait to be fetched from another copy.", func(f *figures) float64 { return float64(f.copies.repairer.pending.Load()) }),
		counter("repairs_total", "Ranges that were fetched from another copy.", func(f *figures) float64 { return float64(f.copies.repairer.repairs.Load()) }),
		counter("repairs_failed_total", "Attempts to do so that failed.", func(f *figures) float64 { return float64(f.copies.repairer.failures.Load()) }),
		counter("repairs_samples_total", "Samples that repairs brought.", func(f *figures) float64 { return float64(f.copies.repairer.samples.Load()) }),
	}
}
