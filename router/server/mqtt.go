package server

import (
	"fmt"

	"github.com/tickmesh/tickmesh/api/budget"
	"github.com/tickmesh/tickmesh/router/ingest"
	"github.com/tickmesh/tickmesh/router/mqtt"
)

// openMQTT reads the file of brokers; nil: none is named.
func (s *Listeners) openMQTT(b *Backend, writer *ingest.Server, messages *budget.Pool, q *queries) (*mqtt.Service, error) {
	if s.mqttFile == "" {
		return nil, nil
	}
	service, err := mqtt.New(mqtt.Options{
		Path: s.mqttFile, Writer: writer, Memory: messages, Logger: q.logger, Registerer: q.registry,
		// Routers of a cluster are several, as a rule, and one of them is to write each message.
		Parser: mqtt.Parser{Shared: b.Campaign != nil},
	})
	if err != nil {
		return nil, fmt.Errorf("--mqtt-file: %w", err)
	}
	return service, nil
}
