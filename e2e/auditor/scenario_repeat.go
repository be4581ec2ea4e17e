package auditor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/tickmesh/tickmesh/e2e/model"
)

// repeatMetric is written by this scenario alone; clients do not know it.
const (
	repeatMetric = "repeated"
	repeatSeries = 64 // so that every shard has some
	// repeatFromMs is the time of the first round's samples.
	repeatFromMs int64 = 1_700_000_000_000
)

// repeatAfterKill writes with a key through one router, overwrites, kills the leader of
// the most shards, and repeats the first write through the other router: no old value may
// come back. Then a write of level all while the killed node is away says that it has too
// few copies, and the same write has all of them once it is back.
func repeatAfterKill(ctx context.Context, s *Stage) error {
	routers := s.Routers()
	for round := range 3 {
		leader, err := s.leader(ctx)
		if err != nil {
			return err
		}
		s.logf("round %d: kill %s between a write and its repetition", round, leader.Name)
		first, second := repeatBody(round, 1), repeatBody(round, 2)
		key := fmt.Sprintf("repeat %d of seed %d", round, s.options.Seed)
		if err := s.post(ctx, routers[0], first, key, "majority", 0); err != nil {
			return fmt.Errorf("the first write: %w", err)
		}
		if err := s.post(ctx, routers[1], second, "", "majority", 0); err != nil {
			return fmt.Errorf("the overwrite: %w", err)
		}
		if err := leader.Kill(); err != nil {
			return err
		}
		for i, router := range []string{routers[1], routers[0]} {
			if err := s.post(ctx, router, first, key, "majority", 0); err != nil {
				return fmt.Errorf("repetition %d: %w", i, err)
			}
			if err := s.repeatedIs(ctx, routers[i], round, 2); err != nil {
				return fmt.Errorf("after repetition %d: %w", i, err)
			}
		}
		if err := s.post(ctx, routers[0], second, key, "all", http.StatusServiceUnavailable); err != nil {
			return fmt.Errorf("level all with a voter away: %w", err)
		}
		if err := leader.Start(ctx); err != nil {
			return err
		}
		if err := s.post(ctx, routers[1], second, key, "all", 0); err != nil {
			return fmt.Errorf("level all with all voters: %w", err)
		}
		if err := s.progress(ctx); err != nil {
			return err
		}
		if err := s.check(ctx); err != nil {
			return err
		}
	}
	return nil
}

func repeatBody(round, value int) []byte {
	var text []byte
	for i := range repeatSeries {
		text = fmt.Appendf(text, "%s,series=s%d value=%d %d\n", repeatMetric, i, value, repeatFromMs+int64(round))
	}
	return text
}

// post writes until there is an answer other than 503, or with want until there is that
// one.
func (s *Stage) post(ctx context.Context, router string, body []byte, key, level string, want int) error {
	bounded, cancel := context.WithTimeout(ctx, standstillMax)
	defer cancel()
	for {
		r := requestOf{method: http.MethodPost, address: router, path: writePath, body: body, key: key, level: level}
		_, _, err := s.Audit.do(bounded, r)
		unavailable := errors.Is(err, errUnavailable)
		switch {
		case want == http.StatusServiceUnavailable && unavailable, want == 0 && err == nil:
			return nil
		case want == 0 && unavailable:
		default:
			return fmt.Errorf("%w: the answer is %w", ErrBroken, err)
		}
		if !wait(bounded, failurePause) {
			return fmt.Errorf("%w: %w", ErrStalled, err)
		}
	}
}

// repeatedIs compares the values of a round.
func (s *Stage) repeatedIs(ctx context.Context, router string, round int, want float64) error {
	at := repeatFromMs + int64(round)
	path := fmt.Sprintf("/api/query?start=%d&end=%d&ms=true&arrays=true&m=%s", at, at, url.QueryEscape("none:"+repeatMetric+"{series=*}"))
	body, _, err := s.Audit.do(ctx, requestOf{method: http.MethodGet, address: router, path: path})
	if err != nil {
		return err
	}
	var answer []model.AnswerSeries
	if err := json.Unmarshal(body, &answer); err != nil {
		return err
	}
	if len(answer) != repeatSeries {
		return fmt.Errorf("%w: %d series, want %d", ErrBroken, len(answer), repeatSeries)
	}
	for _, series := range answer {
		if len(series.DPS) != 1 || series.DPS[0][1] != want {
			return fmt.Errorf("%w: %v has %v, want %v", ErrBroken, series.Tags, series.DPS, want)
		}
	}
	return nil
}
