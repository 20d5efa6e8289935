package main

import (
	"testing"

	"chatclub/internal/app/doctest"
	"chatclub/internal/service"
)

func TestSettingsDoc(t *testing.T) {
	t.Parallel()
	doctest.Settings(t, "../../docs/settings.md", "chatclub", service.Table[settings]())
	doctest.Settings(t, "../../docs/settings.md", "chatclub watch", service.Table[watchSettings]())
}
