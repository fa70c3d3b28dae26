"""What do real hosts need? For each of them a folder: settings, services for systemd, and for a trial also keys.

The files are a start: the administrator of a host reads them and moves them to their places.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from ..errors import PartitaError
from ..extras import optional
from .operator import FEDERATION
from .services import AUTHORITY

PROXY = """# For nginx: sites reach the Fleet API; nothing else can be reached from outside.
# Anyone who reaches /v1/control/ can enrol sites and start runs: Flower asks for no password there.
server {{
    listen {public} ssl;
    server_name {host};
    ssl_certificate     {etc}/superlink/superlink.crt;   # in place of the trial's: one that sites' machines trust
    ssl_certificate_key {etc}/superlink/superlink.key;
    client_max_body_size 64m;                             # Flower sends larger messages in pieces
    proxy_read_timeout 300s;

    location /v1/fleet/ {{
        proxy_pass https://127.0.0.1:{port};
        proxy_ssl_trusted_certificate {etc}/superlink/authority.crt;
        proxy_ssl_verify on;
        proxy_ssl_name localhost;
        proxy_set_header Host $host;
    }}
    location / {{ return 404; }}
}}
"""
UNIT = """[Unit]
Description={description}
After=network-online.target{after}
Wants=network-online.target
{unit}
[Service]
User={user}
Group=partita-link
ExecStart={command}
WorkingDirectory={folder}
{extra}Restart={restart}
# A SuperLink takes a site back only when its last connection counts as lost, after about a minute.
RestartSec=15
SuccessExitStatus=130
KillMode=control-group
NoNewPrivileges=true
ProtectSystem=strict
ProtectHome=true
PrivateTmp=true
ReadWritePaths={folder}

[Install]
WantedBy=multi-user.target
"""
NODE = """# The site's own file; a plan cannot change it. See docs/deployment.md.
name = {site}
folder = "{folder}"
socket = "/run/partita/socket"           # where partita node connect finds the site,
group = "partita-link"                   # which runs under another user of this group
# key = "/etc/partita/personal.key"      # encrypts personal parts: openssl rand -out FILE 32

[data]                                   # any data source; here an example
name = "npz"
path = "/data/{name}.npz"
split = {{ name = "iid", clients = 1 }}

[policy]                                 # plans that run without an approval of their own; by default none
least_sites = {least}
"""
README = """{title}

{steps}
"""


def write_hosts(folder: Path, sites: Sequence[str], host: str, port: int, public: int, *, trial: bool) -> None:
    """Write the folders of the operator and of each site; with `trial` also certificates and keys."""
    for name in sites:
        if not name or name in (".", "..") or set(name) & set("/\\\0\n\"'"):
            raise PartitaError(f"{name!r} cannot be the name of a folder and of a site. Use letters and digits.")
    if len(set(sites)) != len(sites):
        raise PartitaError(f"The sites are {list(sites)}. Give each a name of its own.")
    if (folder / FEDERATION).exists():
        raise PartitaError(f"{folder} already is the folder of a federation. Choose another, or add sites with enrol.")
    certificates = optional("partita.deploy.certificates", "partita[flower]") if trial else None
    link = folder / "superlink"
    link.mkdir(parents=True, exist_ok=True, mode=0o700)
    if certificates:
        certificates.make_certificates(link, host)
    etc, bin_ = "/etc/partita", "/opt/partita/bin/partita"
    _write(
        folder,
        {
            FEDERATION: f'superlink = "127.0.0.1:{port}"\ncertificate = "superlink/{AUTHORITY}"\n',
            "superlink/nginx.conf": PROXY.format(host=host, port=port, public=public, etc=etc),
            "superlink/partita-superlink.service": _unit(
                "Flower's SuperLink for Partita",
                f"{bin_} federate superlink {etc}/superlink --port {port}",
                user="partita-link",
                folder=f"{etc}/superlink",
            ),
            "superlink/partita-server.service": _unit(
                "The server of a federation",
                f"{bin_} federate server {etc}/plan.json --federation {etc} --output /var/lib/partita/run",
                user="partita-link",
                folder="/var/lib/partita",
                after="partita-superlink.service",
                # Its app, which the SuperLink starts, finds it by a socket in /tmp.
                unit="JoinsNamespaceOf=partita-superlink.service\n",
                restart="on-failure",
            ),
            "README.md": README.format(title="# The operator's folder", steps=_operator(sites, host, trial)),
        },
    )
    for name in sites:
        place = folder / "sites" / name
        place.mkdir(parents=True, mode=0o700)
        home = "/var/lib/partita/site"
        connect = (
            f"{bin_} node connect --superlink {host}:{public} --certificate {etc}/{AUTHORITY} --key {etc}/key "
            f"--socket /run/partita/socket --home /var/lib/partita/flower"
        )
        _write(
            place,
            {
                "node.toml": NODE.format(site=f'"{name}"', name=name, folder=home, least=min(len(sites), 3)),
                "partita-node.service": _unit(
                    f"The site {name} of a federation",
                    f"{bin_} node run {etc}/node.toml",
                    user="partita-node",
                    folder=home,
                    extra="RuntimeDirectory=partita\nRuntimeDirectoryMode=0750\n",
                ),
                "partita-connect.service": _unit(
                    f"The connection of the site {name}",
                    connect,
                    user="partita-link",
                    folder="/var/lib/partita/flower",
                    after="partita-node.service",
                ),
                "README.md": README.format(title=f"# The site {name}", steps=_site(name, trial)),
            },
        )
        if certificates:
            certificates.make_key(place / "key")
            (place / AUTHORITY).write_bytes((link / AUTHORITY).read_bytes())


def _unit(
    description: str,
    command: str,
    *,
    user: str,
    folder: str,
    after: str = "",
    unit: str = "",
    extra: str = "",
    restart: str = "always",
) -> str:
    """A service; `unit` and `extra` are further lines of its first and second section."""
    return UNIT.format(
        description=description,
        command=command,
        user=user,
        folder=folder,
        after=after and f" {after}",
        unit=unit,
        extra=extra,
        restart=restart,
    )


def _operator(sites: Sequence[str], host: str, trial: bool) -> str:
    first = sites[0]
    key = f"sites/{first}/key.pub" if trial else f"{first}.pub"
    trust = (
        "The certificates and keys in here are for a trial: anyone who can read this folder can act as any of the "
        "hosts."
        if trial
        else "Put the SuperLink's certificate, its key and the certificate of its authority into superlink/: "
        f"superlink.crt, superlink.key and {AUTHORITY}. The first must hold for {host}, localhost and 127.0.0.1: "
        f"docs/deployment.md has the commands. Every site needs {AUTHORITY}."
    )
    return f"""{trust}

1. Install Partita on the server, in /opt/partita. As root, with the umask 022, make a user and copy the files:
       useradd --system --user-group partita-link
       install -d /etc/partita && cp -r federation.toml superlink /etc/partita
       chown -R partita-link /etc/partita/superlink
       install -d -o partita-link -m 700 /var/lib/partita
       cp superlink/*.service /etc/systemd/system && systemctl daemon-reload
2. Let a reverse proxy stand before the SuperLink: superlink/nginx.conf. Flower's control API must not be reachable.
3. systemctl enable --now partita-superlink
4. Enrol each site with the public key that it sent: partita federate enrol {first} {key} --federation /etc/partita
5. Make a plan, and send it to all sites, which approve it:
       partita federate plan experiment.toml --sites {",".join(sites)} --output /etc/partita/plan.json
6. systemctl enable --now partita-server, and watch it: partita federate status /var/lib/partita/run --web"""


def _site(name: str, trial: bool) -> str:
    key = (
        "The key in here was made for a trial, by the operator. For a real federation make your own, with "
        if trial
        else f"The certificate {AUTHORITY} is from the operator. Make the site's key: "
    )
    return f"""{key}ssh-keygen -t ecdsa -b 384 -N '' -f key
Only key.pub leaves this machine: the operator enrols it under the name {name}.

1. Install Partita in /opt/partita. As root, make two users: partita-node reads the data and has the personal parts,
   partita-link has the key and the connection.
       useradd --system --user-group partita-link && useradd --system --groups partita-link partita-node
       install -d -o partita-node -m 700 /var/lib/partita/site
       install -d -o partita-link -m 700 /var/lib/partita/flower
2. Put the files where they belong, and edit node.toml: which data, and what may leave.
       install -d /etc/partita && install -m 644 node.toml {AUTHORITY} /etc/partita
       install -m 600 -o partita-link key /etc/partita
       cp *.service /etc/systemd/system && systemctl daemon-reload
       sudo -u partita-node /opt/partita/bin/partita node check /etc/partita/node.toml
3. systemctl enable --now partita-node partita-connect
4. Read each plan that you are sent, and approve it:
       sudo -u partita-node /opt/partita/bin/partita node approve /etc/partita/node.toml plan.json
5. What arrived and left: sudo -u partita-node /opt/partita/bin/partita node log /etc/partita/node.toml --verify"""


def _write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
