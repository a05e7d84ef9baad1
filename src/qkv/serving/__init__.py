"""The server: a queue for each model, HTTP routes and the page."""

from qkv.serving.app import ROUTES, make_app
from qkv.serving.glossary import Glossary, read_glossaries
from qkv.serving.limits import Limits
from qkv.serving.models import Models, Served
from qkv.serving.on_demand import OnDemand, seconds_of
from qkv.serving.queue import Queue
from qkv.serving.queued import Queued, QueuedTranslator
from qkv.serving.server import serve
from qkv.serving.service import Service
from qkv.serving.suggestions import Suggestions
