package bench

import (
	"math/rand/v2"
	"sync"

	"github.com/tickmesh/tickmesh/e2e/bench/load"
	"github.com/tickmesh/tickmesh/e2e/bench/target"
	"github.com/tickmesh/tickmesh/e2e/workload"
)

// rowsPerRequest is the seconds of one device in a request.
const rowsPerRequest = pointsPerRequest / workload.SensorCount

// header puts an HTTP head before a body where the protocol needs one.
func header(server *target.Server, protocol target.Protocol, body *workload.Body) {
	if protocol == target.HTTPLine {
		body.Prepend(load.AppendPost(nil, server.Addresses.HTTP, server.WritePath(), len(body.Text)))
	}
}

// ring sends the same few bodies of one device again and again, with new times,
// so that the client costs next to nothing.
type ring struct {
	device int
	bodies []*workload.Body
	sums   []float64 // of sensor 0 over each body
	sent   int64     // requests
	calls  int64
	read   func(device int, toS int64) []byte // nil: writes alone
}

func newRing(server *target.Server, protocol target.Protocol, device int) *ring {
	r := &ring{device: device}
	made := workload.NewDevice(seed, device, false)
	for range ringBodies {
		body, sum := &workload.Body{}, 0.0
		for row := range rowsPerRequest {
			values := made.Next()
			sum += values[0].Float()
			body.AppendRow(protocol.Form(), device, row, values)
		}
		header(server, protocol, body)
		r.bodies, r.sums = append(r.bodies, body), append(r.sums, sum)
	}
	return r
}

// next is a load.Feed without end.
func (r *ring) next() (load.Item, bool) {
	r.calls++
	if r.read != nil && r.calls%readsEveryRequests == 0 {
		return load.Item{Text: r.read(r.device, r.toS()), Read: true}, true
	}
	body := r.bodies[r.sent%ringBodies]
	body.SetTime(r.toS())
	r.sent++
	return load.Item{Text: body.Text, Points: body.Points}, true
}

// toS is the time after the last row sent.
func (r *ring) toS() int64 { return baseSeconds + r.sent*rowsPerRequest }

// mean is that of sensor 0 over all that was sent.
func (r *ring) mean() float64 {
	sum := 0.0
	for i, part := range r.sums {
		times := r.sent / ringBodies
		if int64(i) < r.sent%ringBodies {
			times++
		}
		sum += part * float64(times)
	}
	return sum / float64(r.sent*rowsPerRequest)
}

// stream makes rows of one device as it goes, so that no value repeats.
func stream(server *target.Server, protocol target.Protocol, device, rows int, noise bool) load.Feed {
	made := workload.NewDevice(seed, device, noise)
	text, body, sent := &workload.Body{}, &workload.Body{}, 0
	return func() (load.Item, bool) {
		if sent >= rows {
			return load.Item{}, false
		}
		body.Reset()
		count := min(rowsPerRequest, rows-sent)
		for row := range count {
			body.AppendRow(protocol.Form(), device, row, made.Next())
		}
		body.SetTime(baseSeconds + int64(sent))
		text.Reset()
		if protocol == target.HTTPLine {
			text.Text = load.AppendPost(text.Text, server.Addresses.HTTP, server.WritePath(), len(body.Text))
		}
		text.Text = append(text.Text, body.Text...)
		sent += count
		return load.Item{Text: text.Text, Points: body.Points}, true
	}
}

// backfill makes rows of one device a step of seconds apart, in their order or in one that is drawn.
func backfill(server *target.Server, protocol target.Protocol, device, rows, stepS int, shuffle bool) load.Feed {
	made := workload.NewDevice(seed, device, false)
	order := make([]int, rows)
	values := make([][workload.SensorCount]workload.Number, rows)
	for row := range order {
		order[row], values[row] = row, *made.Next()
	}
	if shuffle {
		rand.New(rand.NewPCG(seed, uint64(device))).Shuffle(rows, func(i, j int) { order[i], order[j] = order[j], order[i] })
	}
	return func() (load.Item, bool) {
		if len(order) == 0 {
			return load.Item{}, false
		}
		body := &workload.Body{}
		count := min(rowsPerRequest, len(order))
		for _, row := range order[:count] {
			body.AppendRow(protocol.Form(), device, row*stepS, &values[row])
		}
		order = order[count:]
		header(server, protocol, body)
		body.SetTime(baseSeconds)
		return load.Item{Text: body.Text, Points: body.Points}, true
	}
}

// streams are the feeds of count devices.
func streams(server *target.Server, protocol target.Protocol, count, rows int, noise bool) []load.Feed {
	feeds := make([]load.Feed, count)
	for device := range feeds {
		feeds[device] = stream(server, protocol, device, rows, noise)
	}
	return feeds
}

// fleet is many devices, divided over connections, that send a row each round.
type fleet struct {
	parts [][]*workload.Device
	next  int // number of the next device
}

// newFleet returns so many devices, numbered from first on.
func newFleet(first, devices int) *fleet {
	f := &fleet{parts: make([][]*workload.Device, cardinalityConns), next: first + devices}
	for number := first; number < f.next; number++ {
		part := number % cardinalityConns
		f.parts[part] = append(f.parts[part], workload.NewDevice(seed, number, false))
	}
	return f
}

// round builds all requests of a round, so that the client only sends while time
// is taken. With shuffle each round has another order.
func (f *fleet) round(server *target.Server, protocol target.Protocol, round int, shuffle bool) []load.Feed {
	feeds := make([]load.Feed, len(f.parts))
	var group sync.WaitGroup
	for part := range f.parts {
		group.Go(func() {
			devices := f.parts[part]
			if shuffle {
				random := rand.New(rand.NewPCG(seed+uint64(round), uint64(part)))
				random.Shuffle(len(devices), func(i, j int) { devices[i], devices[j] = devices[j], devices[i] })
			}
			var items []load.Item
			for start := 0; start < len(devices); start += rowsPerRequest {
				body := &workload.Body{}
				for _, device := range devices[start:min(start+rowsPerRequest, len(devices))] {
					body.AppendRow(protocol.Form(), device.Number, 0, device.Next())
				}
				header(server, protocol, body)
				body.SetTime(baseSeconds + int64(round*cardinalityStepS))
				items = append(items, load.Item{Text: body.Text, Points: body.Points})
			}
			feeds[part] = list(items)
		})
	}
	group.Wait()
	return feeds
}

func list(items []load.Item) load.Feed {
	next := 0
	return func() (load.Item, bool) {
		if next == len(items) {
			return load.Item{}, false
		}
		next++
		return items[next-1], true
	}
}
