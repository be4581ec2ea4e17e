package node

func copyMetrics() []metric {
	return []metric{
		counter("digest_ranges_total", "Closed ranges of shards whose copies were compared.", func(f *figures) float64 { return float64(f.copies.RangesCompared) }),
		counter("digest_passes_total", "Times that all closed ranges of the shards led here were gone through.", func(f *figures) float64 { return float64(f.copies.Passes) }),
		counter("digest_samples_total", "Samples that were read for digests.", func(f *figures) float64 { return float64(f.copies.SamplesRead) }),
		counter("digest_mismatches_total", "Copies of ranges that were not what they should be.", func(f *figures) float64 { return float64(f.copies.Mismatches) }),
		counter("digest_undecided_total", "Ranges that could not be compared, since copies did not answer or were being written.", func(f *figures) float64 { return float64(f.copies.Undecided) }),
		counter("digest_unreadable_total", "Ranges that could not be compared, since they could not be read here.", func(f *figures) float64 { return float64(f.copies.Unreadable) }),
		gauge("digest_conflicts", "Ranges whose copies differ though the checksums of all hold.", func(f *figures) float64 { return float64(f.copies.Conflicts) }),
		gauge("damaged_parts", "Parts of segments that cannot be read, by shard.", func(f *figures) float64 { return float64(f.copies.Damages) }),
		gauge("repairs_pending", "Ranges that wait to be fetched from another copy.", func(f *figures) float64 { return float64(f.copies.RepairsPending) }),
		counter("repairs_total", "Ranges that were fetched from another copy.", func(f *figures) float64 { return float64(f.copies.Repairs) }),
		counter("repairs_failed_total", "Attempts to do so that failed.", func(f *figures) float64 { return float64(f.copies.RepairsFailed) }),
		counter("repairs_samples_total", "Samples that repairs brought.", func(f *figures) float64 { return float64(f.copies.SamplesRepaired) }),
	}
}
