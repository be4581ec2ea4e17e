// Package mqtt subscribes to topics of MQTT brokers and writes what their messages hold. It is a client:
// devices talk to the broker, and this server fetches from there.
//
// A message with QoS 1 is acknowledged after the write of its samples, or after it was found to hold none that
// another try would place. So the broker keeps what could not be written yet, across restarts of this server where
// the session outlives the connection. QoS 1 delivers at least once: what comes twice is written twice, which
// changes nothing where its time stands in the message.
//
// The package knows no listeners, users or queries. A Service follows a file of connections (Parse); each
// connection has one client of MQTT 5, a bounded queue and one writer of batches, which hands WriteRequests of
// remote write to a Writer.
package mqtt
