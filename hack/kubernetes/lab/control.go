package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
)

// The control socket speaks HTTP:
//
//	GET  /ready                            when the API server is ready
//	GET  /machines                         []Machine as JSON
//	POST /machines/NAME/on|off|cut|mend    power and cable
//	POST /machines/NAME/fill|free          the second disk
//	POST /machines/NAME/load?archive=PATH  import images
//	POST /plane/cut|mend                   the way to the API server

// A Machine is one node of the lab as its rack sees it.
type Machine struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	Zone    string `json:"zone"` // its label topology.kubernetes.io/zone
	On      bool   `json:"on"`
}

// answerBytesMax bounds what is read of an answer.
const answerBytesMax = 1 << 20

func (r *rack) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, request *http.Request) {
		r.answer(w, r.ready(request.Context()))
	})
	mux.HandleFunc("GET /machines", func(w http.ResponseWriter, _ *http.Request) {
		if err := json.NewEncoder(w).Encode(r.machines()); err != nil {
			r.log.Warn("an answer was not sent", "error", err)
		}
	})
	for action, do := range map[string]func(node, *http.Request) error{
		"on":   func(n node, _ *http.Request) error { return r.powerOn(n) },
		"off":  func(n node, _ *http.Request) error { return r.powerOff(n) },
		"cut":  func(n node, _ *http.Request) error { return r.setCable(n, "down") },
		"mend": func(n node, _ *http.Request) error { return r.setCable(n, "up") },
		"fill": func(n node, _ *http.Request) error { return r.fill(n) },
		"free": func(n node, _ *http.Request) error { return r.free(n) },
		"load": func(n node, request *http.Request) error { return r.load(n, request.URL.Query().Get("archive")) },
	} {
		mux.HandleFunc("POST /machines/{name}/"+action, func(w http.ResponseWriter, request *http.Request) {
			n, err := parseNode(request.PathValue("name"))
			if err == nil {
				err = do(n, request)
			}
			r.log.Info("asked", "machine", request.PathValue("name"), "action", action, "error", err)
			r.answer(w, err)
		})
	}
	for action, rule := range map[string]string{"cut": "--insert", "mend": "--delete"} {
		mux.HandleFunc("POST /plane/"+action, func(w http.ResponseWriter, _ *http.Request) {
			err := r.refuseAPI(rule)
			r.log.Info("asked", "action", action, "of", "API server", "error", err)
			r.answer(w, err)
		})
	}
	return mux
}

func (r *rack) answer(w http.ResponseWriter, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
	}
}

func (r *rack) machines() []Machine {
	r.mu.Lock()
	defer r.mu.Unlock()
	var machines []Machine
	for _, n := range allNodes() {
		_, on := r.mu.power[n]
		machines = append(machines, Machine{n.name(), n.address(), n.zone(), on})
	}
	return machines
}

// controlClient speaks to a rack through its socket.
func controlClient(socket string) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}
}

// ask sends one request to the control socket and returns the answer's body. An answer
// other than 200 is an error with its text.
func (r *Rack) ask(ctx context.Context, method, path string, query url.Values) ([]byte, error) {
	target := url.URL{Scheme: "http", Host: "rack", Path: path, RawQuery: query.Encode()}
	request, err := http.NewRequestWithContext(ctx, method, target.String(), nil)
	if err != nil {
		return nil, err
	}
	response, err := r.control.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, answerBytesMax))
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New(string(bytes.TrimSpace(body)))
	}
	return body, err
}

// Machines lists the machines that the lab has room for.
func (r *Rack) Machines(ctx context.Context) ([]Machine, error) {
	body, err := r.ask(ctx, http.MethodGet, "/machines", nil)
	if err != nil {
		return nil, err
	}
	var machines []Machine
	return machines, json.Unmarshal(body, &machines)
}

// PowerOff ends everything on a machine at once, as the loss of its power would. Its
// disk stays. It fails if the machine is off.
func (r *Rack) PowerOff(ctx context.Context, name string) error { return r.act(ctx, name, "off") }

// PowerOn starts a machine: one that was off with its disk as it was, or a new one. It
// does not wait for Kubernetes to see it. It fails if the machine is on.
func (r *Rack) PowerOn(ctx context.Context, name string) error { return r.act(ctx, name, "on") }

// Cut takes a machine from the network; everything on it goes on.
func (r *Rack) Cut(ctx context.Context, name string) error { return r.act(ctx, name, "cut") }

// Mend connects a machine that was cut off.
func (r *Rack) Mend(ctx context.Context, name string) error { return r.act(ctx, name, "mend") }

// Fill takes all that is free of a machine's second disk, where volumes of the storage class SmallClass are.
func (r *Rack) Fill(ctx context.Context, name string) error { return r.act(ctx, name, "fill") }

// Free gives back what Fill took.
func (r *Rack) Free(ctx context.Context, name string) error { return r.act(ctx, name, "free") }

// CutAPI has every connection to the API server refused, and those that stand broken, as if its
// process had ended. Everything else goes on.
func (r *Rack) CutAPI(ctx context.Context) error { return r.actOnAPI(ctx, "cut") }

// MendAPI ends what CutAPI did.
func (r *Rack) MendAPI(ctx context.Context) error { return r.actOnAPI(ctx, "mend") }

func (r *Rack) actOnAPI(ctx context.Context, action string) error {
	if _, err := r.ask(ctx, http.MethodPost, "/plane/"+action, nil); err != nil {
		return fmt.Errorf("%s the API server: %w", action, err)
	}
	return nil
}

func (r *Rack) act(ctx context.Context, name, action string) error {
	if _, err := r.ask(ctx, http.MethodPost, "/machines/"+name+"/"+action, nil); err != nil {
		return fmt.Errorf("%s %s: %w", action, name, err)
	}
	return nil
}
