"""A stand-in for the package `ray`: tasks run in this process, as soon as they are submitted."""

from types import SimpleNamespace


class Reference:
    """A result of a task, or the error that it ended with."""

    def __init__(self, call):
        self.error = self.value = None
        try:
            self.value = call()
        except Exception as error:
            self.error = error


class Ray:
    """What `zoo.lab.launch.ray_pool` uses of the package.

    Args:
        gpus: of its only machine.
        fails: names of tasks that Ray itself fails, without calling them.

    Attributes:
        calls: (function, arguments) of `init` and `shutdown`, in order.
        tasks: {name: (options, number of arguments that are results of other tasks)} of the tasks.
    """

    __version__ = "2.60.0"

    def __init__(self, gpus=0, fails=()):
        self.calls, self.tasks, self._fails = [], {}, fails
        self._machine = {"CPU": 4.0, "GPU": float(gpus), "memory": float(1 << 34)}

    def init(self, **options):
        self.calls.append(("init", options))

    def shutdown(self):
        self.calls.append(("shutdown", {}))

    def cluster_resources(self):
        return self._machine

    def nodes(self):
        return [{"Alive": True, "Resources": self._machine}, {"Alive": False, "Resources": {"GPU": 8.0}}]

    def remote(self, function):
        return SimpleNamespace(options=lambda **options: SimpleNamespace(remote=self._submit(function, options)))

    def _submit(self, function, options):
        def submit(*arguments):
            name = options["name"]
            self.tasks[name] = (options, sum(isinstance(one, Reference) for one in arguments))
            if name in self._fails:
                return Reference(lambda: {}["the cluster has no such machine"])
            return Reference(lambda: function(*(one.value if isinstance(one, Reference) else one for one in arguments)))

        return submit

    def wait(self, references, timeout):
        return references, []

    def get(self, reference):
        if reference.error is not None:
            raise reference.error
        return reference.value
