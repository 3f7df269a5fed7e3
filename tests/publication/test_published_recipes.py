"""The command that writes the page of published recipes."""

from publication import __main__ as commands
from publication import published_recipes


def test_the_command_writes_the_page_unless_a_preset_differs(monkeypatch, tmp_path, capsys):
    page = tmp_path / "published_recipes.md"
    monkeypatch.setattr(published_recipes, "PAGE", page)
    name, flat = "mistral:7b", published_recipes.presets()["mistral:7b"]
    pins = [pin for pin in published_recipes.read() if pin.presets == "mistral"]
    monkeypatch.setattr(published_recipes, "read", lambda: pins)
    monkeypatch.setattr(published_recipes, "presets", lambda: {name: flat | {"optimizer.epsilon": 1e-8}})
    assert commands.main(["recipes"]) == 2
    assert "mistral:7b, epsilon: pinned is 1e-05, and the config has 1e-08" in capsys.readouterr().err
    assert not page.exists()
    monkeypatch.setattr(published_recipes, "presets", lambda: {name: flat})
    assert commands.main(["recipes"]) == 0
    assert "## mistral" in page.read_text(encoding="utf-8")
