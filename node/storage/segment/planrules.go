package segment

// due says whether it is time to join what is narrower: a month waits until it is
// written for size at once.
func (p *planner) due(partition Partition, span Span) bool {
	if span == SpanMonth {
		return p.old(partition)
	}
	return p.closed(partition)
}

// joins says whether the narrower runs of a day or month are to be merged into
// one, now or with the next ones.
func (p *planner) joins(partition Partition, span Span) bool {
	if span > p.SpanMax || !p.due(partition, span) {
		return false
	}
	narrower := p.within(partition, SpanTwoHours, span-1)
	files, bytes := 0, int64(0)
	for _, r := range narrower {
		files += len(r.files)
		bytes += r.bytes
	}
	return files <= InputsMax && (p.JobBytesMax == 0 || bytes <= p.JobBytesMax)
}

// tidyAndClose looks at the runs of each partition by themselves.
func (p *planner) tidyAndClose() (Job, bool) {
	for span := SpanTwoHours; span <= SpanMonth; span++ {
		for _, partition := range p.partitions(span, span, span) {
			if p.goesWider(partition, span) {
				continue
			}
			runs := p.within(partition, span, span)
			if span == SpanTwoHours && p.closed(partition) {
				if job, ok := p.closeRuns(runs, partition); ok {
					return job, true
				}
			}
			if job, ok := p.tidy(runs, partition); ok {
				return job, true
			}
		}
	}
	return Job{}, false
}

// goesWider says whether it is time for a wider partition to take what lies in this
// one, so that work on it now would be done twice.
func (p *planner) goesWider(partition Partition, span Span) bool {
	for wider := span + 1; wider <= p.SpanMax; wider++ {
		if p.joins(PartitionOf(partition.StartMs, wider), wider) {
			return true
		}
	}
	return false
}

// closeRuns makes one run of a closed partition.
func (p *planner) closeRuns(runs []*run, partition Partition) (Job, bool) {
	total, largest := sizes(runs)
	if len(runs) < 2 || total < largest+largest/4 {
		return Job{}, false
	}
	return p.job(runs, partition, "close")
}

func sizes(runs []*run) (total, largest int64) {
	for _, r := range runs {
		total += r.bytes
		largest = max(largest, r.bytes)
	}
	return total, largest
}

// tidy merges neighbours of similar size. Damaged runs part the neighbours.
func (p *planner) tidy(runs []*run, partition Partition) (Job, bool) {
	start := 0
	for end := 0; end <= len(runs); end++ {
		if end < len(runs) && !runs[end].damaged() {
			continue
		}
		if job, ok := p.tidyNeighbours(runs[start:end], partition); ok {
			return job, true
		}
		start = end + 1
	}
	return Job{}, false
}

// tidyRunsMax bounds the runs of one tidying merge.
const tidyRunsMax = 64

func (p *planner) tidyNeighbours(runs []*run, partition Partition) (Job, bool) {
	from, to := worthwhile(runs, p.FanIn)
	if to == 0 && len(runs) > p.RunsMax {
		from, to = cheapest(runs, p.FanIn)
	}
	if to == 0 {
		return Job{}, false
	}
	return p.job(runs[from:to], partition, "tidy")
}

// worthwhile gives the longest stretch of at least fanIn runs that together are
// twice as large as the largest of them, and of equally long ones the smallest.
func worthwhile(runs []*run, fanIn int) (from, to int) {
	var best int64
	for i := range runs {
		var total, largest int64
		for j := i; j < len(runs) && j-i < tidyRunsMax; j++ {
			total += runs[j].bytes
			largest = max(largest, runs[j].bytes)
			length := j + 1 - i
			if length < fanIn || total < 2*largest {
				continue
			}
			if length > to-from || length == to-from && total < best {
				from, to, best = i, j+1, total
			}
		}
	}
	return from, to
}

// cheapest gives the n neighbours with the smallest sum.
func cheapest(runs []*run, n int) (from, to int) {
	var best int64
	for i := range len(runs) + 1 - n {
		if total, _ := sizes(runs[i : i+n]); to == 0 || total < best {
			from, to, best = i, i+n, total
		}
	}
	return from, to
}

// widen joins the narrower runs of closed days and months.
func (p *planner) widen() (Job, bool) {
	for span := SpanDay; span <= p.SpanMax; span++ {
		for _, partition := range p.partitions(span, SpanTwoHours, span-1) {
			if !p.joins(partition, span) || p.goesWider(partition, span) {
				continue
			}
			narrower := p.within(partition, SpanTwoHours, span-1)
			if len(p.within(partition, span, span)) > 0 && len(narrower) < p.FanIn {
				continue
			}
			if job, ok := p.job(narrower, partition, "widen"); ok {
				return job, true
			}
		}
	}
	return Job{}, false
}

// densify encodes old runs for size, when no wider partition will do so.
func (p *planner) densify() (Job, bool) {
	for i := range p.runs {
		r := &p.runs[i]
		if r.span < SpanDay || r.span > SpanMonth || !p.old(r.partition()) || p.denseAlready(r) || p.mayWiden(r) {
			continue
		}
		if job, ok := p.job([]*run{r}, r.partition(), "densify"); ok {
			return job, true
		}
	}
	return Job{}, false
}

func (p *planner) denseAlready(r *run) bool {
	for i := range r.files {
		if !r.files[i].Dense {
			return false
		}
	}
	return true
}

// mayWiden says whether a run will, now or later, be joined into a wider one.
func (p *planner) mayWiden(r *run) bool {
	if r.span >= p.SpanMax {
		return false
	}
	wider := PartitionOf(r.partition().StartMs, r.span+1)
	return !p.due(wider, r.span+1) || p.goesWider(r.partition(), r.span)
}
