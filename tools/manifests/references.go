package main

import (
	"errors"
	"fmt"
	"maps"
)

// pod is a pod template of an overlay, to which other objects refer.
type pod struct {
	owner  string
	labels map[string]any
	ports  map[string]bool // names
}

// checkReferences names every selector, port and scale target that leads to
// nothing: the API server takes them, and nothing happens.
func checkReferences(objects []object) error {
	pods := podsOf(objects)
	var faults []error
	fault := func(o object, format string, args ...any) {
		faults = append(faults, fmt.Errorf("%s: %s", o, fmt.Sprintf(format, args...)))
	}
	for _, o := range objects {
		for _, path := range selectors[o.text("kind")] {
			wanted, ok := o.at(path...).(map[string]any)
			if !ok || len(wanted) == 0 { // all pods
				continue
			}
			selected := selectPods(pods, wanted)
			if len(selected) == 0 {
				fault(o, "its selector %v finds no pod", wanted)
			}
			for _, port := range portsOf(o) {
				for _, p := range selected {
					if !p.ports[port] {
						fault(o, "%s has no port %q", p.owner, port)
					}
				}
			}
		}
		if o.text("kind") == "ScaledObject" && !exists(objects, "Deployment", o.text("spec", "scaleTargetRef", "name")) {
			fault(o, "there is no Deployment %q", o.text("spec", "scaleTargetRef", "name"))
		}
		if o.text("kind") == "Policy" && !exists(objects, "RabbitmqCluster", o.text("spec", "rabbitmqClusterReference", "name")) {
			fault(o, "there is no RabbitmqCluster %q", o.text("spec", "rabbitmqClusterReference", "name"))
		}
	}
	return errors.Join(faults...)
}

// selectors are the places of the labels by which a kind selects pods.
var selectors = map[string][][]string{
	"Service":             {{"spec", "selector"}},
	"Deployment":          {{"spec", "selector", "matchLabels"}},
	"StatefulSet":         {{"spec", "selector", "matchLabels"}},
	"PodDisruptionBudget": {{"spec", "selector", "matchLabels"}},
	"NetworkPolicy":       {{"spec", "podSelector", "matchLabels"}},
	"PodMonitor":          {{"spec", "selector", "matchLabels"}},
}

// podsOf returns the pods of the overlay's Deployments and StatefulSets, and those
// that the RabbitMQ cluster operator makes.
func podsOf(objects []object) (pods []pod) {
	for _, o := range objects {
		switch o.text("kind") {
		case "Deployment", "StatefulSet":
			p := pod{owner: o.String(), ports: make(map[string]bool)}
			p.labels, _ = o.at("spec", "template", "metadata", "labels").(map[string]any)
			containers, _ := o.at("spec", "template", "spec", "containers").([]any)
			for _, c := range containers {
				fields, _ := c.(map[string]any)
				ports, _ := fields["ports"].([]any)
				for _, port := range ports {
					p.ports[object(port.(map[string]any)).text("name")] = true
				}
			}
			pods = append(pods, p)
		case "RabbitmqCluster":
			pods = append(pods, pod{
				owner: o.String(),
				labels: map[string]any{
					"app.kubernetes.io/name":      o.text("metadata", "name"),
					"app.kubernetes.io/component": "rabbitmq",
					"app.kubernetes.io/part-of":   "rabbitmq",
				},
				ports: map[string]bool{"amqp": true, "management": true, "prometheus": true},
			})
		}
	}
	return pods
}

// selectPods returns the pods that have all the wanted labels.
func selectPods(pods []pod, wanted map[string]any) (selected []pod) {
	for _, p := range pods {
		if matched := maps.Clone(p.labels); matched != nil {
			maps.Copy(matched, wanted)
			if maps.Equal(matched, p.labels) {
				selected = append(selected, p)
			}
		}
	}
	return selected
}

// portsOf returns the names of the ports that o expects of the pods it selects.
func portsOf(o object) (names []string) {
	for _, list := range []struct {
		path []string
		name string
	}{
		{[]string{"spec", "ports"}, "targetPort"},         // of a Service
		{[]string{"spec", "podMetricsEndpoints"}, "port"}, // of a PodMonitor
	} {
		entries, _ := o.at(list.path...).([]any)
		for _, e := range entries {
			fields, _ := e.(map[string]any)
			if name, ok := fields[list.name].(string); ok {
				names = append(names, name)
			}
		}
	}
	return names
}

func exists(objects []object, kind, name string) bool {
	for _, o := range objects {
		if o.text("kind") == kind && o.text("metadata", "name") == name {
			return true
		}
	}
	return false
}
