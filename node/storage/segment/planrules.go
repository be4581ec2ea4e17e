package segment

// due reports whether it is time to join what is narrower: a month waits until it is
// written for size at once.
func (p *planner) due(partition Partition, span Span) bool {
	if span == SpanMonth {
		return p.old(partition)
	}
	return p.closed(partition)
}

// joins reports whether the narrower runs of a day or month are to be merged into
// one, now or with the next ones.
func (p *planner) joins(partition Partition, span Span) bool {
	if span > p.SpanMax || !p.due(partition, span) {
		return false
	}
	files, bytes := 0, int64(0)
	for _, r := range p.within(partition, SpanTwoHours, span-1) {
		files += len(r.files)
		bytes += r.bytes
	}
	return files <= InputsMax && bytes <= p.JobBytesMax
}

// goesWider reports whether it is time for a wider partition to take what lies in
// this one, so that joining it here would be work done twice.
func (p *planner) goesWider(partition Partition, span Span) bool {
	for wider := span + 1; wider <= p.SpanMax; wider++ {
		if p.joins(PartitionOf(partition.StartMs, wider), wider) {
			return true
		}
	}
	return false
}

// stretches returns the runs in a partition, by sequence, cut where a run that
// barrier names lies between them: nothing may be merged across it.
func (p *planner) stretches(partition Partition, barrier func(*run) bool) (stretches [][]*run) {
	var stretch []*run
	for i := range p.runs {
		r := &p.runs[i]
		switch {
		case !r.partition().Overlaps(partition):
		case !barrier(r):
			stretch = append(stretch, r)
		case len(stretch) > 0:
			stretches = append(stretches, stretch)
			stretch = nil
		}
	}
	if len(stretch) > 0 {
		stretches = append(stretches, stretch)
	}
	return stretches
}

// widen joins the narrower runs of days and months that are due.
func (p *planner) widen() (Job, bool) {
	for span := min(p.SpanMax, SpanMonth); span > SpanTwoHours; span-- {
		for _, partition := range p.partitions(span, SpanTwoHours, span-1) {
			if !p.joins(partition, span) || p.goesWider(partition, span) {
				continue
			}
			barrier := func(r *run) bool { return r.span > span || r.damaged() }
			for _, stretch := range p.stretches(partition, barrier) {
				if job, ok := p.widenStretch(stretch, partition, span); ok {
					return job, true
				}
			}
		}
	}
	return Job{}, false
}

// widenStretch joins the narrower runs of a stretch, together with those of the
// span itself that lie between them.
func (p *planner) widenStretch(stretch []*run, partition Partition, span Span) (Job, bool) {
	narrower := 0
	var low, high uint64
	for _, r := range stretch {
		if r.span == span {
			continue
		}
		if narrower == 0 {
			low = r.low()
		}
		narrower++
		high = max(high, r.high())
	}
	if narrower == 0 || narrower < len(stretch) && narrower < p.FanIn {
		return Job{}, false
	}
	var inputs []*run
	for _, r := range stretch {
		if r.span < span || r.low() <= high && low <= r.high() {
			inputs = append(inputs, r)
		}
	}
	return p.job(inputs, partition, "widen")
}

// tidyAndClose looks at the runs of each partition by themselves.
func (p *planner) tidyAndClose() (Job, bool) {
	for span := SpanTwoHours; span <= SpanMonth; span++ {
		for _, partition := range p.partitions(span, span, span) {
			if span == SpanTwoHours && p.closed(partition) && !p.goesWider(partition, span) {
				if job, ok := p.closeRuns(p.within(partition, span, span), partition); ok {
					return job, true
				}
			}
			barrier := func(r *run) bool { return r.span != span || r.damaged() }
			for _, stretch := range p.stretches(partition, barrier) {
				if job, ok := p.tidy(stretch, partition); ok {
					return job, true
				}
			}
		}
	}
	return Job{}, false
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

// tidyRunsMax bounds the runs of one tidying merge.
const tidyRunsMax = 64

// tidy merges neighbours of similar size.
func (p *planner) tidy(runs []*run, partition Partition) (Job, bool) {
	from, to := worthwhile(runs, p.FanIn, p.JobBytesMax)
	if to == 0 && len(runs) > p.RunsMax {
		from, to = cheapest(runs, p.FanIn)
	}
	if to == 0 {
		return Job{}, false
	}
	return p.job(runs[from:to], partition, "tidy")
}

// worthwhile returns the longest stretch of at least fanIn runs that together are
// twice as large as the largest of them and at most bytesMax, and of equally long ones the
// smallest.
func worthwhile(runs []*run, fanIn int, bytesMax int64) (from, to int) {
	var best int64
	for i := range runs {
		var total, largest int64
		files := 0
		for j := i; j < len(runs) && j-i < tidyRunsMax; j++ {
			total += runs[j].bytes
			largest = max(largest, runs[j].bytes)
			files += len(runs[j].files)
			length := j + 1 - i
			if length < fanIn || total < 2*largest || files > InputsMax || total > bytesMax {
				continue
			}
			if length > to-from || length == to-from && total < best {
				from, to, best = i, j+1, total
			}
		}
	}
	return from, to
}

// cheapest returns the n neighbours with the smallest sum.
func cheapest(runs []*run, n int) (from, to int) {
	var best int64
	for i := range len(runs) + 1 - n {
		if total, _ := sizes(runs[i : i+n]); to == 0 || total < best {
			from, to, best = i, i+n, total
		}
	}
	return from, to
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

// mayWiden reports whether a run will, now or later, be joined into a wider one.
func (p *planner) mayWiden(r *run) bool {
	if r.span >= p.SpanMax {
		return false
	}
	wider := PartitionOf(r.partition().StartMs, r.span+1)
	return !p.due(wider, r.span+1) || p.goesWider(r.partition(), r.span)
}
