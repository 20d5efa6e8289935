package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"chatclub/internal/queue"
	"chatclub/internal/service"
)

// policed is a queue with the policy in force on it, as RabbitMQ's management API tells it.
type policed struct {
	Name   string         `json:"name"`
	Policy map[string]any `json:"effective_policy_definition"`
}

// checkManagement wants the address of a management API, with user and password.
func checkManagement(name string, raw service.Secret) error {
	u, err := url.Parse(raw.Reveal())
	if raw != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User == nil) {
		return service.Faultf(name, "must be an address such as http://user:password@rabbitmq:15672")
	}
	return nil
}

// askPolicies asks RabbitMQ's management API for the policies of all queues of a virtual host.
// The user needs the tag management.
func askPolicies(ctx context.Context, management service.Secret, vhost string) (list []policed, err error) {
	u, err := url.Parse(management.Reveal())
	if err != nil { // the settings have checked it
		return nil, errors.New("MANAGEMENT_URL is not an address")
	}
	user, password := u.User.Username(), ""
	if p, ok := u.User.Password(); ok {
		password = p
	}
	u.User = nil
	u = u.JoinPath("api", "queues", url.PathEscape(vhost))
	u.RawQuery = "columns=name,effective_policy_definition"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return nil, err
	}
	req.SetBasicAuth(user, password)
	resp, err := (&http.Client{Timeout: askTimeout}).Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the management API answers %s", resp.Status)
	}
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil {
		return nil, fmt.Errorf("read the management API's answer: %w", err)
	}
	return list, nil
}

// losses says which policies take messages off queues of a topology, one sentence for each kind.
// Dead letters may be bounded.
func losses(top queue.Topology, list []policed) []string {
	harms := map[string]string{
		"message-ttl":      "takes off what is older",
		"expires":          "deletes a queue that nobody uses",
		"max-age":          "forgets orders",
		"max-length":       "drops the oldest",
		"max-length-bytes": "drops the oldest",
		"delivery-limit":   "takes off what came back so often",
	}
	on := make(map[string][]string) // the queues of each sentence
	for _, q := range list {
		if !strings.HasPrefix(q.Name, top.Prefix+".") || q.Name == top.Dead() {
			continue
		}
		for key, value := range q.Policy {
			overflow, _ := q.Policy["overflow"].(string)
			refuses := strings.HasPrefix(key, "max-length") && strings.HasPrefix(overflow, "reject-publish") // its publisher tries again
			if harm := harms[key]; harm != "" && !refuses {
				sentence := fmt.Sprintf("%s %v %s", key, value, harm)
				on[sentence] = append(on[sentence], q.Name)
			}
		}
	}
	var all []string
	for _, sentence := range slices.Sorted(maps.Keys(on)) {
		names := on[sentence]
		slices.Sort(names)
		text := "a policy on " + names[0]
		if n := len(names); n > 1 {
			text += fmt.Sprintf(" and %d more", n-1)
		}
		all = append(all, text+": "+sentence)
	}
	return all
}
