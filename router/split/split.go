package split

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/tickmesh/tickmesh/api/parse"
	"github.com/tickmesh/tickmesh/api/series"
)

// Resolver finds the series that exist.
type Resolver interface {
	// Resolve sets refs, which is as long as keys, to the series of the keys; the
	// Ref of a key that is not known has the Hint series.HintNone. Hint is the
	// Hint of the Ref that was found just before, or series.HintNone: series
	// created one after the other, whose Hints grow by 1, are often asked for one
	// after the other. The keys are only valid during the call.
	Resolve(hint uint32, keys []series.Key, refs []series.Ref)
}

// Options configure a Splitter.
type Options struct {
	Shards   int             // number of shards of the cluster, 1 to 65,536
	ShardKey series.ShardKey // of the cluster, keys the choice of shards
	Limits   parse.Limits    // the same as the parser's
}

// sharding returns how shards are chosen.
func (o *Options) sharding() series.Sharding {
	return series.Sharding{Shards: o.Shards, Key: o.ShardKey}
}

// ErrOptions marks options that cannot be used.
var ErrOptions = errors.New("splitter options")

// errDefinitions is the refusal of series beyond definitionBytesMax.
var errDefinitions = errors.New("too many new series in one request")

// definitionBytesMax bounds the keys of one frame's new series: a long line of
// many fields repeats its tags in every key.
const definitionBytesMax = 32 << 20

// Splitter splits batches. Its memory is bounded by its cache of lines and by the largest
// batch that it has met.
type Splitter struct {
	options Options
	limits  parse.Limits

	lines       lineCache
	fieldSets   fieldSets
	databases   numbering
	extraLabels numbering
	epoch       uint64

	keys    parse.KeyBuilder
	pending resolveBatch

	// The Hint of the last Ref that the resolver gave, and whether the lines
	// before came in the order of their creation. Only then is the hint worth a
	// try: a wrong one costs the resolver a look at a key that is in no cache.
	hint    uint32
	inOrder bool

	definitions definitions
	frame       series.FrameEncoder
}

// New makes a Splitter. Its only error is ErrOptions.
func New(o Options) (*Splitter, error) {
	if o.Shards < 1 || o.Shards > 1<<16 {
		return nil, fmt.Errorf("%w: %d shards", ErrOptions, o.Shards)
	}
	return &Splitter{
		options:     o,
		limits:      o.Limits.WithDefaults(),
		lines:       newLineCache(rand.Uint64()),
		fieldSets:   newFieldSets(rand.Uint64()),
		definitions: definitions{seed: rand.Uint64()},
		hint:        series.HintNone,
	}, nil
}

// MemoryBytes returns about how much memory the splitter keeps. A pool releases
// splitters that have grown beyond its bound.
func (s *Splitter) MemoryBytes() int {
	const entryBytes, definitionBytes, useBytes = 40, 48, 12
	return s.frame.MemoryBytes() + cap(s.lines.texts) + 4*cap(s.lines.ids) + 2*lineCacheSlots + entryBytes*cap(s.lines.entries) +
		definitionBytes*cap(s.definitions.list) + useBytes*cap(s.definitions.uses) +
		4*cap(s.definitions.slots) + cap(s.definitions.keys) + s.pending.memoryBytes() +
		s.databases.bytes + s.extraLabels.bytes + s.fieldSets.names.bytes + cap(s.fieldSets.text)
}

// Split encodes the points of a batch. Errors in the identity of a line are
// added to the batch. Ids that the cache holds are dropped when epoch differs
// from the call before: the caller changes it whenever an id may have become
// invalid. The epoch is the frame's Generation. The frame is valid until the next
// call of Split.
func (s *Splitter) Split(b *parse.Batch, database []byte, r Resolver, epoch uint64) *series.Frame {
	s.begin(epoch)
	within, fieldSet := s.contextOf(database, b.Extra.Text()), uint8(noFields)
	lastShape, points := uint32(0), 0
	for i := range b.Lines {
		l := &b.Lines[i]
		switch {
		case l.Form != parse.FormLine:
			fieldSet = noFields
		case fieldSet == noFields || l.Shape != lastShape:
			fieldSet, lastShape = s.fieldSets.of(b, l), l.Shape
		}
		c := within.of(l.Form, fieldSet)
		head, tags := b.Head(l), b.Tags(l)
		e, hash := s.lines.guess(c, head, tags), uint64(0)
		if e == nil {
			hash = s.lines.hash(c, head, tags)
			e = s.lines.find(hash, c, head, tags)
		}
		switch {
		case e == nil:
			points += s.addNew(b, uint32(i), database, identity{hash, c}, r)
		case len(s.pending.items) == 0:
			s.appendKnown(b, l, e)
			points += int(l.Count)
			continue
		default:
			s.pending.add(item{kind: itemKnown, line: uint32(i), at: uint32(s.lines.last)})
		}
		if s.pending.isLong() {
			points += s.flush(b, r)
		}
	}
	points += s.flush(b, r)
	return s.frame.Finish(points)
}

// appendKnown encodes the points of a line that is in the cache.
func (s *Splitter) appendKnown(b *parse.Batch, l *parse.Line, e *cachedLine) {
	encoder := s.frame.Batch(s.frame.Part(e.shard))
	ids := s.lines.ids[e.ids : e.ids+e.idsCount]
	points := b.Points[l.First : l.First+l.Count]
	if l.Form != parse.FormLine {
		for i := range points {
			p := &points[i]
			encoder.Append(ids[0], p.TimeMs, p.Mantissa, p.Scale)
		}
		return
	}
	for i := range points[:len(ids)] {
		p := &points[i]
		encoder.Append(ids[i], p.TimeMs, p.Mantissa, p.Scale)
	}
}

// begin empties the frame of the call before.
func (s *Splitter) begin(epoch uint64) {
	s.frame.Begin(series.Frame{Generation: epoch})
	s.definitions.reset()
	switch {
	case s.lines.isOutworn():
		s.lines.clear()
		s.fieldSets.clear()
		s.databases.clear()
		s.extraLabels.clear()
	case epoch != s.epoch:
		s.lines.clear()
	}
	s.epoch = epoch
}

// contextOf returns what the contexts of all lines of a batch have in common.
func (s *Splitter) contextOf(database, extraLabels []byte) context {
	c := context(s.databases.of(database)) << databaseAt
	if len(extraLabels) > 0 {
		c |= context(s.extraLabels.of(extraLabels)) << extraLabelsAt
	}
	return c
}

func (s *Splitter) refuse(b *parse.Batch, l *parse.Line, points int, err error) {
	kind := parse.KindSyntax
	var identity *parse.IdentityError
	if errors.As(err, &identity) {
		kind = identity.Kind
	}
	b.AddError(l, points, kind, err.Error(), s.limits.ErrorsMax)
}

// define returns the reference of a new series, defining it in the frame when it
// is met for the first time.
func (s *Splitter) define(key series.Key, line uint32, points int) (part int, id series.ID) {
	d := &s.definitions
	hash := hashText(d.seed, key)
	index, found := d.find(hash, key)
	if !found {
		part = s.frame.Part(s.options.sharding().Of(key))
		index = d.add(hash, key, part, s.frame.Batch(part).Define(key))
	}
	d.uses = append(d.uses, use{uint32(index), line, uint32(points)})
	return int(d.list[index].part), d.list[index].ref
}

// MoveTo moves the frame of the last Split with its memory to f, so that it outlives the next
// Split, and takes the memory that f had. Refused may follow all the same.
func (s *Splitter) MoveTo(f *series.EncodedFrame) { s.frame.MoveTo(f) }

// Defines reports whether the frame of the last Split defines series: only these can be
// refused.
func (s *Splitter) Defines() bool { return len(s.definitions.list) > 0 }

// Refused adds an error to the batch for every line that has points of a refused
// definition, and returns the number of points that were left out. It must follow
// the Split that made the frame.
func (s *Splitter) Refused(b *parse.Batch, outcome series.Outcome) (points int) {
	if len(outcome.Refused) == 0 {
		return 0
	}
	d := &s.definitions
	for _, refusal := range outcome.Refused {
		if refusal.Part < d.partMax && refusal.Definition < len(d.byPart[refusal.Part]) {
			d.list[d.byPart[refusal.Part][refusal.Definition]].refused = refusal.Err
		}
	}
	for i := 0; i < len(d.uses); {
		line, lost := d.uses[i].line, 0
		var why error
		for ; i < len(d.uses) && d.uses[i].line == line; i++ {
			if err := d.list[d.uses[i].definition].refused; err != nil {
				why = err
				lost += int(d.uses[i].points)
			}
		}
		if lost > 0 {
			b.AddError(&b.Lines[line], lost, parse.KindRefused, why.Error(), s.limits.ErrorsMax)
			points += lost
		}
	}
	return points
}
