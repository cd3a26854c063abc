"""`regard recipes`: the named runs."""

import json

from regard.cli.options import AsJson


def recipes(as_json: AsJson = False) -> None:
    """List the named runs, with their data, size and expected result."""
    from regard.recipes import load_recipe, names

    listed = {name: load_recipe(name) for name in names()}
    if as_json:
        print(json.dumps({name: recipe.resolved() for name, recipe in listed.items()}, indent=1))
        return
    for name, recipe in listed.items():
        print(
            f"{name}\n    {recipe.about}\n    data {recipe.data.get('name', 'files')}, model {recipe.model['preset']}"
        )
        if recipe.result:
            print(f"    {recipe.result}")
