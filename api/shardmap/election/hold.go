// Package election does the work of an election for as long as it is won.
package election

import (
	"context"
	"errors"
	"time"

	"github.com/tickmesh/tickmesh/api/shardmap"
)

// campaignDelay is the wait after a campaign that failed, and the time for resigning.
const campaignDelay = time.Second

// Hold runs work whenever this process is elected, until ctx ends, and has only one run at a time. The context of work
// ends with its term; when work returns before that, it leaves the election and campaigns again. Campaign waits until the
// process is elected; nil: it always is, and work runs once.
func Hold(ctx context.Context, campaign func(context.Context) (shardmap.Leadership, error), work func(context.Context)) {
	if campaign == nil {
		work(ctx)
		return
	}
	for ctx.Err() == nil {
		leadership, err := campaign(ctx)
		if err != nil {
			if errors.Is(err, shardmap.ErrClosed) {
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(campaignDelay):
			}
			continue
		}
		term, end := context.WithCancel(ctx)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			select {
			case <-leadership.Lost():
				end()
			case <-term.Done():
			}
		}()
		work(term)
		end()
		<-ended
		resign(leadership)
	}
}

// resign ends the lease, so that another process is elected at once; without it the lease ends by itself.
func resign(leadership shardmap.Leadership) {
	ctx, cancel := context.WithTimeout(context.Background(), campaignDelay)
	defer cancel()
	_ = leadership.Resign(ctx)
}
