"""Uses every registrar of the context object once."""

from pathlib import Path

from agent.browser_provider import BrowserProvider
from agent.context_engine import ContextEngine
from agent.context_references import ContextReferenceProvider
from agent.image_gen_provider import ImageGenProvider
from agent.memory_provider import MemoryProvider
from agent.secret_sources.base import SecretSource
from agent.terminal_env_provider import TerminalEnvironmentProvider
from agent.transcription_provider import TranscriptionProvider
from agent.tts_provider import TTSProvider
from agent.video_gen_provider import VideoGenProvider
from agent.web_search_provider import WebSearchProvider
from gateway.config import Platform
from gateway.platforms.base import BasePlatformAdapter, SendResult
from hermes_cli.dashboard_auth import DashboardAuthProvider, LoginStart, Session


class Search(WebSearchProvider):
    """Finds one thing."""

    name = "member-search"

    def is_available(self):
        return True

    def search(self, query, limit=5):
        return {"success": True, "data": {"web": [{"title": query}]}}


class Image(ImageGenProvider):
    """Makes nothing."""

    name = "member-image"

    def generate(self, prompt, aspect_ratio="landscape", **kwargs):
        return {"success": True, "image": prompt}


class Video(VideoGenProvider):
    """Makes nothing."""

    name = "member-video"

    def generate(self, prompt, **kwargs):
        return {"success": True}


class Browser(BrowserProvider):
    """Opens nothing."""

    name = "member-browser"

    def is_available(self):
        return True

    def create_session(self, task_id):
        return {"id": task_id}

    def close_session(self, session_id):
        return True


class Terminal(TerminalEnvironmentProvider):
    """Runs nothing."""

    name = "member-terminal"

    def create_environment(self, **options):
        return None


class Speech(TTSProvider):
    """Says nothing."""

    name = "member-tts"

    def synthesize(self, text, output_path, **options):
        return output_path


class Ears(TranscriptionProvider):
    """Hears nothing."""

    name = "member-stt"

    def transcribe(self, file_path, **options):
        return {"success": True, "transcript": ""}


class Secrets(SecretSource):
    """Knows nothing."""

    name = "member-secrets"

    def fetch(self, *args, **options):
        return {}


class Reference(ContextReferenceProvider):
    """`@member:x` is x."""

    prefix = "member"

    def resolve(self, target, **options):
        return target


class Memory(MemoryProvider):
    """Remembers nothing."""

    name = "member-memory"

    def is_available(self):
        return True

    def initialize(self, session_id, **kwargs):
        pass

    def get_tool_schemas(self):
        return []


class Engine(ContextEngine):
    """Never shrinks anything."""

    name = "member-engine"

    def update_from_response(self, usage):
        pass

    def should_compress(self, prompt_tokens=None):
        return False

    def compress(self, messages, current_tokens=None, **options):
        return messages


class Login(DashboardAuthProvider):
    """Lets nobody in."""

    name = "member-login"

    def start_login(self, *, redirect_uri):
        return LoginStart(redirect_url=redirect_uri)

    def complete_login(self, **options):
        return Session()

    def verify_session(self, *, access_token):
        return None

    def refresh_session(self, *, refresh_token):
        return Session()

    def revoke_session(self, *, refresh_token):
        pass


class Adapter(BasePlatformAdapter):
    """Sends nowhere."""

    def __init__(self, config):
        super().__init__(config, Platform("member"))

    async def connect(self):
        return True

    async def disconnect(self):
        pass

    async def send(self, chat_id, content, reply_to=None, metadata=None):
        return SendResult(success=True)

    async def get_chat_info(self, chat_id):
        return {}


def setup_cli(parser):
    """One option."""
    parser.add_argument("--loud", action="store_true")


def run_cli(args):
    """Prints."""
    print("MEMBER" if args.loud else "member")


def register(ctx):
    """Everything, once."""
    here = Path(__file__).parent
    ctx.register_hook("on_session_start", lambda **fields: None)
    ctx.register_middleware("tool_request", lambda **call: None)
    ctx.register_tool("member_tool", "member", {"name": "member_tool"}, lambda args: "{}")
    ctx.register_command("member", lambda raw: raw)
    ctx.register_cli_command("member", "says member", setup_cli, run_cli)
    ctx.register_skill("member", here / "SKILL.md", "A skill")
    ctx.register_system_prompt_section("member.fixed", "A fixed section.")
    ctx.register_system_prompt_section("member.made", lambda facts: f"Model {facts['model']}.")
    ctx.register_system_prompt_section("member.long", "x" * 5000)
    ctx.register_memory_provider(Memory())
    ctx.register_context_engine(Engine())
    ctx.register_context_reference(Reference())
    ctx.register_image_gen_provider(Image())
    ctx.register_video_gen_provider(Video())
    ctx.register_web_search_provider(Search())
    ctx.register_browser_provider(Browser())
    ctx.register_terminal_environment_provider(Terminal())
    ctx.register_tts_provider(Speech())
    ctx.register_transcription_provider(Ears())
    ctx.register_secret_source(Secrets())
    ctx.register_dashboard_auth_provider(Login())
    ctx.register_platform("member", "Member", Adapter, lambda: True, max_message_length=100)
    ctx.register_platform_handler("telegram", lambda app, adapter: None)
    ctx.register_telegram_handler(lambda app, adapter: None)
    ctx.register_slack_action_handler("member", lambda **event: None)
    ctx.register_approval_transport("member", lambda **request: None)
    ctx.register_auxiliary_task("member_task", display_name="Member")
    ctx.register_locale("de", {"member": "Mitglied"})
    ctx.register_automation_blueprint({"id": "member"})
    assert ctx.register_redaction_patterns([r"mem-[0-9]{4}", r".*"]) == 1
    ctx.subscribe("every_member:ping", lambda **payload: None)
    ctx.on_unload(lambda: None)
