package rabbit

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
)

// leastMajor is the major version of RabbitMQ from which on quorum queues keep the
// order of what is given back to them.
const leastMajor = 4

// errTooOld says that the server is a RabbitMQ that chatclub does not work with.
var errTooOld = errors.New("4.0 or later is needed")

// keepsConsumers reports whether a server may elect a consumer that is gone: see leave.
func keepsConsumers(server amqp.Table) bool {
	version, _ := server["version"].(string)
	return strings.HasPrefix(version, "4.3.")
}

// checkVersion checks what a server tells of itself in its first frame.
func checkVersion(server amqp.Table) error {
	version := versionOf(server)
	major, _, _ := strings.Cut(version, ".")
	if n, err := strconv.Atoi(major); err != nil || n < leastMajor {
		return fmt.Errorf("the server is RabbitMQ %.40s: %w", version, errTooOld)
	}
	return nil
}

func versionOf(server amqp.Table) string {
	version, _ := server["version"].(string)
	return version
}

// version returns the version of the server of the current session, "" without one.
func (l *link) version() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.current == nil {
		return ""
	}
	return versionOf(l.current.conn.Properties)
}
