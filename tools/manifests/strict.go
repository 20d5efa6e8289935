package main

import "maps"

// strict returns an OpenAPI schema as a JSON schema that allows no field beyond
// those it lists. It changes nothing in its arguments.
func strict(schema map[string]any) map[string]any {
	out := maps.Clone(schema)
	for _, name := range []string{"items", "additionalProperties"} {
		if inner, ok := schema[name].(map[string]any); ok {
			out[name] = strict(inner)
		}
	}
	if properties, ok := schema["properties"].(map[string]any); ok {
		closed := make(map[string]any)
		for name, inner := range properties {
			if fields, ok := inner.(map[string]any); ok {
				inner = strict(fields)
			}
			closed[name] = inner
		}
		out["properties"] = closed
		if schema["additionalProperties"] == nil && schema["x-kubernetes-preserve-unknown-fields"] != true {
			out["additionalProperties"] = false
		}
	}
	if schema["format"] == "int-or-string" {
		out["type"] = []any{"integer", "string"}
	}
	if schema["nullable"] == true {
		if kind, ok := out["type"].(string); ok {
			out["type"] = []any{kind, "null"}
		}
	}
	return out
}
