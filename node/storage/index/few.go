package index

// fewActive are the active series of a part, if they are so few that it is better to begin
// with them than with what the matchers pick.
type fewActive struct {
	rule    fewRule
	active  view
	part    *part
	list    []uint32 // distances from the part's first
	known   bool
	tooMany int // there are more than so many
}

// fewRule describes when active series are few. What is spent on finding that they are not is a
// small share of what the query then takes.
type fewRule struct {
	candidates  int // fewer are tried one by one
	share       int // of so many candidates one may be active
	shareOfPart int // likewise of a part's series where names are listed
}

func defaultFewRule() fewRule {
	return fewRule{candidates: 1 << 10, share: 1 << 6, shareOfPart: 1 << 10}
}

func (f *fewActive) begin(active view, p *part) {
	f.active, f.part, f.known, f.tooMany = active, p, false, -1
}

// below returns the active series if they are far fewer than candidates.
func (f *fewActive) below(candidates int) ([]uint32, bool) {
	most := candidates / f.rule.share
	switch {
	case f.known:
		return f.list, len(f.list) <= most
	case candidates < f.rule.candidates || most <= f.tooMany:
		return nil, false
	}
	if f.list, f.known = f.active.appendFew(f.list[:0], f.part.lo, f.part.hi, most); !f.known {
		f.tooMany = most
	}
	return f.list, f.known
}
