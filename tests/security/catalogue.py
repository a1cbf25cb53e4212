"""Which tests make each of the twenty-five attacks, and which prove that they could succeed."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Attack:
    """One of them."""

    number: int
    title: str
    tests: tuple[str, ...]
    """`file::function` or `file::Class::method`, below tests/."""
    mutations: tuple[str, ...]
    """The same attack where the control is off, and succeeds."""


def _named(file: str, *functions: str) -> tuple[str, ...]:
    return tuple(f"{file}.py::{function}" for function in functions)


_WALLS = "security/test_walls"
_RESOURCES = "security/test_resources"
_READERS = "security/test_readers"
_SUPERVISOR = "security/test_supervisor"
_LEASES = "security/test_executor_leases"
_KILLS = "security/test_kills"
_LOSSES = "security/test_losses"
_CLOCKS = "security/test_clocks"
_BACKENDS = "contract/test_backends"

_EGRESS = "security/test_egress"
_BYPASSES = (
    "test_an_address_instead_of_a_name",
    "test_a_tunnel_for_another_host_than_it_was_asked_for",
    "test_a_tunnel_that_is_no_tls",
    "test_a_request_that_names_two_hosts",
    "test_a_second_request_behind_the_first",
    "test_a_name_that_leads_elsewhere_the_next_time",
    "test_a_secret_in_the_name_that_is_looked_up",
    "test_a_port_that_no_rule_names",
)
_BYPASSES_OPEN = _named(_EGRESS, *_BYPASSES[:-1])
"""Each of these tests also goes its way once with the control off."""

ATTACKS = (
    Attack(
        1,
        "Escape to the host's files: mount, pivot_root, unshare, mknod, /proc/sys, ptrace",
        (
            *_named(_WALLS, "test_no_way_leads_out"),
            *_named("security/test_docker_seccomp", "test_filter_refuses"),
            *_named(
                "security/test_docker_box",
                "test_nothing_can_be_written_but_what_is_sized_and_the_workspace",
            ),
            *_named(
                "security/test_process_boxes",
                "test_the_filter_refuses_what_is_dangerous",
                "test_nothing_but_the_own_places_can_be_written",
                "test_namespaces_cannot_be_nested",
            ),
        ),
        _named(_WALLS, "test_without_walls_everything_can_be_done"),
    ),
    Attack(
        2,
        "A working folder below /proc/self/fd, and a runtime with known holes",
        (
            *_named(
                "unit/executor/test_docker_probe",
                "test_versions_with_the_escape_of_2025_are_named",
                "test_older_versions_have_both",
                "test_an_unknown_version_is_not_called_safe",
            ),
            *_named(_BACKENDS, "TestCommands::test_what_cannot_be_started"),
            *_named(_SUPERVISOR, "test_magic_links_lead_nowhere"),
        ),
        _named(_SUPERVISOR, "test_without_the_walk_they_lead_out"),
    ),
    Attack(
        3,
        "Sockets of engines and of the host",
        (
            *_named(_WALLS, "test_no_way_leads_out"),
            *_named("security/test_docker_box", "test_the_host_is_not_there"),
            *_named("security/test_docker_box", "test_there_is_no_network"),
            *_named("contract/test_docker_sockets", "test_commands_find_nothing_of_the_way_in"),
            *_named("security/test_process_boxes", "test_there_is_no_network"),
        ),
        _named(_WALLS, "test_without_walls_everything_can_be_done"),
    ),
    Attack(
        4,
        "Programs that make their user root",
        (
            *_named(_WALLS, "test_no_way_leads_out"),
            *_named("security/test_docker_box", "test_commands_have_no_privilege_to_lose"),
            *_named(
                "security/test_process_boxes",
                "test_there_is_no_privilege_to_gain",
                "test_nobody_in_the_box_is_root_on_the_host",
            ),
        ),
        _named(_WALLS, "test_without_the_rule_against_it_a_program_makes_its_user_root"),
    ),
    Attack(
        5,
        "Fork bomb",
        (
            *_named(_RESOURCES, "test_a_fork_bomb_is_contained"),
            *_named(_BACKENDS, "TestEndings::test_a_fork_bomb_gives_way_to_the_next_command"),
        ),
        _named(_RESOURCES, "test_without_the_limit_of_processes_a_crowd_gathers"),
    ),
    Attack(
        6,
        "Memory bomb",
        (
            *_named(_RESOURCES, "test_a_memory_bomb_takes_only_itself"),
            *_named(_BACKENDS, "TestEndings::test_a_memory_bomb_ends_alone"),
        ),
        _named(_RESOURCES, "test_without_the_limit_of_memory_the_bomb_has_it"),
    ),
    Attack(
        7,
        "Hog of processors",
        _named(_RESOURCES, "test_a_neighbour_of_a_hog_has_its_share"),
        _named(_RESOURCES, "test_in_the_hog_s_own_sandbox_there_is_no_share"),
    ),
    Attack(
        8,
        "Disk fill, and a million empty files",
        _named(
            _RESOURCES,
            "test_every_place_is_full_at_its_size",
            "test_empty_files_run_out_as_well",
        ),
        _named(_RESOURCES, "test_without_the_sizes_there_is_room"),
    ),
    Attack(
        9,
        "Flood of output that nobody reads",
        (
            *_named(_READERS, "test_a_flood_that_nobody_reads_is_bounded"),
            *_named("integration/test_executor_output", "test_a_flood_that_nobody_reads"),
        ),
        _named(_READERS, "test_without_the_window_a_flood_is_in_memory"),
    ),
    Attack(
        10,
        "Readers that do not read",
        (
            *_named(_READERS, "test_readers_that_sleep_hold_nobody_up"),
            *_named(
                "integration/test_executor_output",
                "test_a_reader_that_does_not_read_holds_nobody_up",
            ),
        ),
        _named(_READERS, "test_without_the_store_a_reader_that_sleeps_holds_its_command_up"),
    ),
    Attack(
        11,
        "Processes that outlive their command",
        (
            *_named(_SUPERVISOR, "test_no_process_survives_its_command"),
            *_named(_BACKENDS, "TestEndings::test_a_timeout_ends_the_whole_tree"),
        ),
        _named(_SUPERVISOR, "test_without_the_hunt_processes_survive"),
    ),
    Attack(
        12,
        "An inherited output that holds the result",
        (
            *_named(_SUPERVISOR, "test_an_inherited_output_holds_no_result"),
            *_named(_BACKENDS, "TestEndings::test_a_background_child_does_not_hold_the_result"),
        ),
        _named(_SUPERVISOR, "test_without_the_grace_it_does"),
    ),
    Attack(
        13,
        "Planted secrets",
        (
            *_named("security/test_planted_secrets", "test_no_secret_is_found_anywhere"),
            *_named(_LEASES, "test_no_token_is_on_disk"),
        ),
        _named("security/test_planted_secrets", "test_what_an_executor_hands_on_is_found"),
    ),
    Attack(
        14,
        "Addresses that no sandbox may reach",
        _named(
            _EGRESS,
            "test_what_is_not_public_is_refused_and_counted",
            "test_addresses_in_other_words_are_no_way",
            "test_there_is_no_way_past_the_proxy",
        ),
        _named(_EGRESS, "test_the_executor_s_machine_is_reached_without_the_vetting"),
    ),
    Attack(15, "Ways around the list of hosts", _named(_EGRESS, *_BYPASSES), _BYPASSES_OPEN),
    Attack(
        16,
        "Another profile's ids",
        _named(
            _LEASES, "test_another_profile_learns_nothing", "test_a_session_belongs_to_a_profile"
        ),
        _named(_LEASES, "test_without_the_check_of_profiles_another_one_gets_in"),
    ),
    Attack(
        17,
        "Stolen, replayed and expired leases",
        _named(
            _LEASES,
            "test_a_wrong_token_is_no_token",
            "test_a_token_is_of_one_sandbox",
            "test_a_lease_that_is_over_is_no_lease",
            "test_a_lease_is_of_one_executor",
            "test_who_is_refused_leaves_a_trace",
        ),
        _named(_LEASES, "test_without_the_check_of_tokens_a_guess_gets_in"),
    ),
    Attack(
        18,
        "An owner who was followed",
        _named(_LEASES, "test_a_follower_fences_the_owner_before"),
        _named(_LEASES, "test_without_the_check_of_epochs_the_owner_before_gets_in"),
    ),
    Attack(
        19,
        "Paths that lead elsewhere",
        (
            *_named(
                _SUPERVISOR,
                "test_a_link_that_is_swapped_is_not_followed_out",
                "test_an_upload_over_a_hard_link_changes_only_its_own_name",
            ),
            *_named(
                _BACKENDS,
                "TestFiles::test_what_cannot_be_read",
                "TestFiles::test_what_cannot_be_written",
                "TestFiles::test_a_link_that_is_swapped_all_the_time",
            ),
        ),
        _named(_SUPERVISOR, "test_without_the_walk_a_link_that_is_swapped_is_followed"),
    ),
    Attack(
        20,
        "Archives that unpack elsewhere, or without end",
        (
            *_named(_SUPERVISOR, "test_attacks_by_archive_are_rejected_soon"),
            *_named(_BACKENDS, "TestArchives::test_an_attack_leaves_nothing"),
        ),
        _named(_SUPERVISOR, "test_without_the_checks_an_archive_writes_beside_its_folder"),
    ),
    Attack(
        21,
        "A supervisor that was taken over",
        _named(
            "security/test_hostile_supervisor",
            "test_only_its_own_sandbox_is_lost",
            "test_nothing_that_it_says_at_random_is_heard_elsewhere",
        ),
        _named("security/test_hostile_supervisor", "test_without_the_checks_it_is_not_noticed"),
    ),
    Attack(
        22,
        "What the owner before has left",
        _named("security/test_purity", "test_nothing_is_left_for_the_next_owner"),
        _named("security/test_purity", "test_a_box_that_is_used_again_is_noticed"),
    ),
    Attack(
        23,
        "Executors that are killed while twenty commands run",
        _named(_KILLS, "test_commands_go_on_or_are_lost_and_none_is_started_twice"),
        _named(
            _KILLS,
            "test_without_the_journal_nothing_is_found_again",
            "test_a_caller_who_asks_under_another_id_starts_it_twice",
        ),
    ),
    Attack(
        24,
        "Clocks that are ten minutes wrong",
        _named(
            _CLOCKS,
            "test_a_clock_that_is_set_changes_no_lease",
            "test_the_next_executor_s_clock_changes_no_lease",
            "test_no_caller_says_what_time_it_is",
        ),
        _named(_CLOCKS, "test_a_lease_that_is_measured_by_the_wall_clock_ends"),
    ),
    Attack(
        25,
        "Sandboxes that get lost",
        _named(_LOSSES, "test_a_loss_is_told_and_nothing_runs_elsewhere"),
        _named(
            _LOSSES,
            "test_a_loss_that_nobody_looks_for_is_not_told",
            "test_the_canary_tells_what_runs_beside_the_executor",
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class Exemption:
    """Attacks that are not made on a backend."""

    backends: tuple[str, ...]
    numbers: frozenset[int]
    why: str


BACKENDS = ("bubblewrap", "docker", "gvisor", "kubernetes", "modal", "singularity", "ssh", "local")
EXEMPTIONS = (
    Exemption(
        ("gvisor", "kubernetes", "modal", "singularity", "ssh", "local"),
        frozenset({9, 10, 22, 24}),
        "what holds there is the executor's own: its store, its pool and its clock are the same "
        "whatever makes its sandboxes",
    ),
    Exemption(
        ("gvisor", "kubernetes", "modal", "singularity"),
        frozenset({14, 15}),
        "connections go through the executor by the same code everywhere; that there is no other "
        "way out, the conformance suite shows on each of these",
    ),
    Exemption(
        ("ssh", "local"),
        frozenset({14, 15}),
        "commands have the network of their machine, and the capability report says so",
    ),
    Exemption(
        ("gvisor",),
        frozenset({1, 3, 4}),
        "commands talk to gVisor's kernel, which has none of the machine's mounts, sockets and "
        "devices; around it are the walls that are attacked on docker",
    ),
    Exemption(
        ("gvisor", "kubernetes", "modal", "singularity"),
        frozenset({7, 8}),
        "shares and sizes are the engine's, the cluster's, the provider's or the machine's to "
        "hold; the conformance suite compares them with the capability report",
    ),
    Exemption(
        ("kubernetes", "modal"),
        frozenset({1, 3, 4}),
        "the walls are those of the cluster's nodes and of the provider, which are not here: "
        "stand-ins for their APIs run the sandboxes of the tests",
    ),
    Exemption(
        ("ssh", "local"),
        frozenset({1, 3, 4, 7, 8}),
        "nothing isolates commands from their machine, and every result says so",
    ),
    Exemption(
        ("local",),
        frozenset({13, 16, 17, 18, 21, 23, 25}),
        "it is for development, and refuses to run commands as root, who these tests are",
    ),
)
"""Every attack that is not made somewhere, with the reason in the backend's nature."""
LEAKS = _named(
    "security/test_leaks",
    "test_sandboxes_leave_nothing",
    "test_boxes_that_are_forgotten_are_counted",
)
"""Not an attack: what many sandboxes leave behind."""
