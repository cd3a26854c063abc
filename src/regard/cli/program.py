"""The program `regard`: its verbs in the order of the help, and how whatever goes wrong becomes one line."""

import os
import sys
from typing import Annotated, NoReturn

import typer

from regard import __version__
from regard.cli.caption import caption
from regard.cli.classify import classify
from regard.cli.demo import demo
from regard.cli.doctor import doctor
from regard.cli.embed import embed
from regard.cli.evaluate import evaluate
from regard.cli.export import export
from regard.cli.fill import fill
from regard.cli.generate import generate
from regard.cli.look import look
from regard.cli.match import match
from regard.cli.options import complain
from regard.cli.plan import plan
from regard.cli.recipes import recipes
from regard.cli.serve import serve
from regard.cli.tag import tag
from regard.cli.train import train
from regard.cli.translate import translate
from regard.errors import RegardError, is_out_of_memory

VERBS = (
    *(recipes, train, evaluate),
    *(translate, classify, match, tag, generate, fill, embed, caption),
    *(look, serve, export, plan, demo, doctor),
)
app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Attention models: build, train, run and look inside them.",
)
for verb in VERBS:
    app.command()(verb)


def main() -> NoReturn:
    """Run a verb. Exit codes: 0 done, 1 failed, 2 wrong use."""
    try:
        # Not app(): click would answer a closed pipe itself, with exit code 1.
        command = typer.main.get_command(app)
        with command.make_context("regard", sys.argv[1:]) as context:
            command.invoke(context)
        sys.stdout.flush()
        code = 0
    except typer.Exit as leaving:
        code = leaving.exit_code
    except RegardError as error:
        code = complain(str(error), error.exit_code)
    except typer.Abort:
        code = complain("interrupted", 1)
    except KeyboardInterrupt:
        code = complain("interrupted", 1)
    except BrokenPipeError:  # whoever read our output has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except OSError as error:
        code = complain(f"{error.filename or 'a file'}: {error.strerror or error}", 1)
    except Exception as error:
        if is_out_of_memory(error):
            code = complain("out of memory: choose a smaller model or smaller batches", 1)
        elif hasattr(error, "format_message"):  # click's word on wrong arguments
            code = complain(error.format_message(), 2)
        else:
            raise
    sys.exit(code)


@app.callback(invoke_without_command=True)
def begin(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False,
) -> None:
    if version:
        print(f"regard {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit
