package main

import (
	"testing"

	"chatclub/internal/readme"
	"chatclub/internal/service"
)

func TestSettingsTable(t *testing.T) {
	readme.Check(t, "../../README.md", "settings chatclub", service.Markdown[settings]())
}
