"""What we use of xllamacpp."""

class _Model:
    path: str

class _Threads:
    n_threads: int

class CommonParams:
    model: _Model
    hostnames: list[str]
    port: int
    api_keys: list[str]
    n_ctx: int
    n_parallel: int
    n_predict: int
    cpuparams: _Threads
    cpuparams_batch: _Threads
    cache_ram_mib: int
    use_jinja: bool
    warmup: bool
    ui: bool
    endpoint_slots: bool

class Server:
    def __init__(self, params: CommonParams) -> None: ...
    @property
    def listening_address(self) -> str: ...
