package ui

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/tickmesh/tickmesh/api/access"
	"github.com/tickmesh/tickmesh/api/processor"
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
)

// What one request may ask for.
const (
	namesMax      = 5000 // names of metrics, tags or values in one answer
	namesDefault  = 50
	searchedMax   = 50_000 // names of metrics that are looked through for a part of them
	countsMax     = 64     // numbers of series in one answer
	countsAtOnce  = 4      // of these, asked for at the same time
	tagsMax       = 64     // tags of a metric whose values are told
	tagValuesMax  = 2000   // values of a tag that are counted; beyond: "more than"
	tagValuesTold = 20     // of these, told by name
)

// names is a list of names of which there may be more.
type names struct {
	Names []string `json:"names"`
	More  bool     `json:"more"` // there are more than these
}

func newNames(list []string, limit int) *names {
	if list == nil {
		list = []string{}
	}
	return &names{Names: list[:min(limit, len(list))], More: len(list) > limit}
}

// aboutView is what the page has to know before anything else.
type aboutView struct {
	Version  string   `json:"version"`
	Dialects []string `json:"dialects"`
	Database string   `json:"database"` // that of the path, for people
	User     string   `json:"user"`     // "": authentication is off
	Admin    bool     `json:"admin"`    // of that database
}

// about returns what is served here and who asks.
func (h *handler) about(r *http.Request) (any, error) {
	who := access.Of(r.Context())
	database, err := access.Database(r, nil)
	if err != nil {
		return nil, badRequest("%s", err)
	}
	return &aboutView{
		Version: h.Version, Dialects: append([]string{}, h.Dialects...), Database: access.Display(database),
		User: who.Name(), Admin: who.May(database, access.Admin),
	}, nil
}

// databases lists the databases that the caller may read.
func (h *handler) databases(r *http.Request) (any, error) {
	all, err := h.Databases(r.Context())
	if err != nil {
		return nil, err
	}
	list := []string{}
	who := access.Of(r.Context())
	for _, name := range append([]string{""}, all...) {
		if len(list) < namesMax && who.May(name, access.Read) && (name != "" || len(list) == 0) {
			list = append(list, access.Display(name))
		}
	}
	return newNames(list, namesMax), nil
}

// metrics lists metrics that begin with the parameter prefix and have the parameter contains in their names, in any
// case, at most as many as the parameter limit says.
func (h *handler) metrics(r *http.Request) (any, error) {
	p := r.URL.Query()
	prefix, contains := p.Get("prefix"), strings.ToLower(p.Get("contains"))
	return h.reading(r, fmt.Sprintf("metrics that begin with %q and contain %q", prefix, contains), func(ctx context.Context, database string) (any, error) {
		limit, err := limitOf(p, namesMax)
		if err != nil {
			return nil, err
		}
		if contains == "" {
			list, err := h.source.Metrics(ctx, database, prefix, limit+1)
			return newNames(list, limit), err
		}
		all, err := h.source.Metrics(ctx, database, prefix, searchedMax+1)
		found := newNames(slices.DeleteFunc(slices.Clone(all), func(name string) bool { return !strings.Contains(strings.ToLower(name), contains) }), limit)
		found.More = found.More || len(all) > searchedMax
		return found, err
	})
}

// names completes what is being typed: kind is "metric", "tag" or "value", and metric and
// tag narrow the latter two.
func (h *handler) names(r *http.Request) (any, error) {
	p := r.URL.Query()
	what := fmt.Sprintf("completion: %s that begins with %q", p.Get("kind"), p.Get("prefix"))
	return h.reading(r, what, func(ctx context.Context, database string) (any, error) {
		limit, err := limitOf(p, namesMax)
		if err != nil {
			return nil, err
		}
		var list []string
		switch kind := p.Get("kind"); kind {
		case "metric":
			list, err = h.source.Metrics(ctx, database, p.Get("prefix"), limit+1)
		case "tag":
			list, err = h.source.TagNames(ctx, database, p.Get("metric"), p.Get("prefix"), limit+1)
		case "value":
			list, err = h.source.TagValues(ctx, database, p.Get("metric"), p.Get("tag"), p.Get("prefix"), limit+1)
		default:
			return nil, badRequest("kind is %q, expected metric, tag or value", kind)
		}
		return newNames(list, limit), err
	})
}

func limitOf(p url.Values, most int) (int, error) {
	text := p.Get("limit")
	if text == "" {
		return namesDefault, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0, badRequest("limit is %q, expected 1 to %d", text, most)
	}
	return n, nil
}

// countsView holds numbers of series, in the order of the parameters.
type countsView struct {
	Series []int64 `json:"series"`
}

// counts returns how many series there are of each parameter metric or, with the parameters
// of=METRIC and tag, of each parameter value; with the parameter all, of the whole database.
func (h *handler) counts(r *http.Request) (any, error) {
	p := r.URL.Query()
	what := fmt.Sprintf("numbers of series of %d metrics", len(p["metric"]))
	switch {
	case p.Has("all"):
		what = "number of series of the database"
	case p.Has("of"):
		what = fmt.Sprintf("numbers of series of %s by %d values of %s", p.Get("of"), len(p["value"]), p.Get("tag"))
	}
	return h.reading(r, what, func(ctx context.Context, database string) (any, error) {
		var selectors []scan.Selector
		if p.Has("all") {
			selectors = append(selectors, scan.Selector{Database: database, MetricAny: true})
		}
		for _, metric := range p["metric"] {
			selectors = append(selectors, scan.Selector{Database: database, Metric: metric})
		}
		for _, value := range p["value"] {
			selectors = append(selectors, scan.Selector{Database: database, Metric: p.Get("of"), Matchers: []scan.Matcher{
				{Name: p.Get("tag"), Kind: scan.MatchEqual, Values: []string{value}}}})
		}
		if len(selectors) > countsMax {
			return nil, badRequest("%d numbers are asked for, the most is %d", len(selectors), countsMax)
		}
		counts, err := h.countAll(ctx, selectors)
		return &countsView{Series: counts}, err
	})
}

// countAll counts the series of each selector, a few at a time.
func (h *handler) countAll(ctx context.Context, selectors []scan.Selector) ([]int64, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	counts := make([]int64, len(selectors))
	next := make(chan int, len(selectors))
	for i := range selectors {
		next <- i
	}
	close(next)
	var workers sync.WaitGroup
	for range min(countsAtOnce, len(selectors)) {
		workers.Go(func() {
			ctx, work := processor.Fork(ctx)
			defer work.End()
			for i := range next {
				total, err := h.source.Series(ctx, &selectors[i], 1, func(series.Key) error { return nil })
				if err != nil {
					cancel(err)
					return
				}
				counts[i] = total
			}
		})
	}
	processor.Of(ctx).Idle()
	workers.Wait()
	return counts, context.Cause(ctx)
}

// tagsView describes the tags of a metric.
type tagsView struct {
	Metric string    `json:"metric"`
	Series int64     `json:"series"`
	Tags   []tagView `json:"tags"`
	More   bool      `json:"more"` // there are more tags
}

type tagView struct {
	Name   string   `json:"name"`
	Values int      `json:"values"` // how many there are
	More   bool     `json:"more"`   // there are more values than that
	First  []string `json:"first"`  // some of them, in order
}

// tags answers with the tags of the parameter metric, with how many values each has.
func (h *handler) tags(r *http.Request) (any, error) {
	metric := r.URL.Query().Get("metric")
	return h.reading(r, "tags of "+metric, func(ctx context.Context, database string) (any, error) {
		if metric == "" {
			return nil, badRequest("the parameter metric is missing")
		}
		counts, err := h.countAll(ctx, []scan.Selector{{Database: database, Metric: metric}})
		if err != nil {
			return nil, err
		}
		found, err := h.source.TagNames(ctx, database, metric, "", tagsMax+1)
		if err != nil {
			return nil, err
		}
		list := newNames(found, tagsMax)
		view := &tagsView{Metric: metric, Series: counts[0], Tags: []tagView{}, More: list.More}
		for _, name := range list.Names {
			values, err := h.source.TagValues(ctx, database, metric, name, "", tagValuesMax+1)
			if err != nil {
				return nil, err
			}
			counted := newNames(values, tagValuesMax)
			view.Tags = append(view.Tags, tagView{
				Name: name, Values: len(counted.Names), More: counted.More, First: counted.Names[:min(tagValuesTold, len(counted.Names))],
			})
		}
		return view, nil
	})
}
