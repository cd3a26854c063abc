"""`regard serve`: the REST API and the explorer."""

from typing import Annotated

import typer


def serve(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="Run or checkpoint folders, or hf:OWNER/NAME.")],
    host: Annotated[str, typer.Option(help="Where to listen; 0.0.0.0 is everywhere, and needs a key.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 is any that is free.")] = 8000,
    api_key_file: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Clients must know the key in its first line, or in REGARD_API_KEY."),
    ] = None,
    no_auth: Annotated[bool, typer.Option(help="Let other machines in without a key; see --host.")] = False,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME[:PORT]", help="A name this server is called by, e.g. of a proxy; may be repeated."),
    ] = None,
    max_body: Annotated[float, typer.Option(help="Megabytes of a request.")] = 10,
    max_tokens: Annotated[int, typer.Option(help="Of a request's texts, and of what is made of each.")] = 4096,
    max_concurrent: Annotated[int, typer.Option(help="Requests at once, those that wait included.")] = 64,
    timeout: Annotated[float, typer.Option(help="Seconds until an answer.")] = 60,
) -> None:
    """Serve runs to programs through a REST API. On this machine only unless told otherwise: see /docs there."""
    from regard.explorer.limits import MEGABYTE, Limits
    from regard.explorer.serving import serve as serve_runs

    limits = Limits(max_body * MEGABYTE, max_tokens, max_concurrent, timeout)
    serve_runs(
        runs,
        host=host,
        port=port,
        limits=limits,
        key_file=api_key_file,
        allowed_hosts=allowed_host or (),
        no_auth=no_auth,
    )
