"""The page of published sizes has what `zoo config sizes` prints."""

from publication import published_recipes, size_pages
from zoo.cli import main


def test_each_family_has_the_table_that_the_command_prints(capsys):
    chosen = {
        name: config for name, config in published_recipes.published_configs().items() if name[:3] in ("lla", "mt5")
    }
    text = size_pages.page(chosen)
    for family in ("llama", "mt5"):
        section = text.partition(f"\n## {family}\n\n")[2].partition("\n\n")[0]
        header, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines())
        assert main.main(["config", "sizes", family]) == 0
        printed = capsys.readouterr().out.partition("\n\n")[0].splitlines()
        assert printed[0].split() == header
        assert [line.split() for line in printed[1:]] == [
            " ".join([f"{family}:{row[0]}", *row[1:]]).split() for row in rows
        ]
        assert f"[{family}](#{family})" in text
