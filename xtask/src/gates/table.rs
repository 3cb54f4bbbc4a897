//! The promises, and the tests that check each of them.

use super::{Gate, Holds};
use crate::supply;

/// The gates, by number.
pub(super) const GATES: &[Gate] = &[
    Gate {
        number: 1,
        promise: "A kill leaves the old content or the new one, and the next run works",
        promised: 2200,
        holds: Holds::Tests(&[
            ("build-pipeline", "it", "bump::a_killed_bump_leaves_the_old_or_the_new_file"),
            ("build-pipeline", "it", "kills::a_killed_build_leaves_a_whole_archive"),
            ("build-pipeline", "it", "kills::a_killed_build_leaves_a_whole_layout"),
            ("build-pipeline", "it", "kills::a_killed_bump_leaves_whole_pins"),
            ("build-pipeline", "it", "kills::a_killed_lock_leaves_whole_files"),
            ("build-pipeline", "it", "kills::a_killed_push_leaves_a_whole_image_under_the_tag"),
            (
                "build-pipeline",
                "it",
                "kills::what_is_written_is_synced_and_renamed_and_its_folder_synced",
            ),
            (
                "build-pipeline",
                "it",
                "patch_trees::a_killed_run_leaves_each_file_old_or_new_and_the_next_one_ends_it",
            ),
            (
                "build-pipeline",
                "it",
                "patch_trees::a_run_that_is_killed_at_any_step_is_reverted_without_a_trace",
            ),
            ("build-pipeline", "it", "signals::kills_leave_the_old_image_or_the_new_one"),
        ]),
    },
    Gate {
        number: 2,
        promise: "A build that is interrupted at any moment leaves nothing behind after `clean`, and does not touch anything that belongs to others",
        promised: 400 + 36,
        holds: Holds::Tests(&[
            ("build-pipeline", "it", "machines::nothing_is_left_of_any_build"),
            ("engine", "it", "kills::whatever_ends_a_build_on_podman_nothing_is_left"),
            ("engine", "it", "kills::whenever_a_build_is_dropped_on_docker_nothing_is_left"),
        ]),
    },
    Gate {
        number: 3,
        promise: "An engine that is killed during a build leaves nothing behind after `clean`, and the next build is correct",
        promised: 75,
        holds: Holds::Tests(&[
            ("engine", "it", "kills::whatever_ends_a_build_on_podman_nothing_is_left"),
            ("engine", "it", "kills::a_daemon_that_is_killed_leaves_nothing_either"),
        ]),
    },
    Gate {
        number: 4,
        promise: "A response that is cut off, or that contains an error, never counts as a success",
        promised: 4000,
        holds: Holds::Tests(&[
            ("engine", "it", "faults::a_stream_that_is_cut_is_never_a_success"),
            ("engine", "it", "faults::every_answer_has_its_verdict"),
        ]),
    },
    Gate {
        number: 5,
        promise: "A full disk is reported, and existing files stay complete",
        promised: 25,
        holds: Holds::Tests(&[
            (
                "build-pipeline",
                "it",
                "full_disk::a_build_on_a_full_disk_says_so_and_goes_on_with_space",
            ),
            ("build-pipeline", "it", "full_disk::a_new_project_on_a_full_disk_leaves_nothing"),
            ("build-pipeline", "it", "full_disk::an_output_on_a_full_disk_is_what_it_was"),
            ("build-pipeline", "it", "full_disk::pins_and_locks_on_a_full_disk_are_what_they_were"),
            ("build-pipeline", "it", "full_disk::records_on_a_full_disk_are_what_they_were"),
        ]),
    },
    Gate {
        number: 6,
        promise: "Two simultaneous runs do not disturb each other; the second waits for the first, even if the first is killed",
        promised: 250 + 50,
        holds: Holds::Tests(&[
            (
                "build-pipeline",
                "it",
                "at_once::a_build_beside_a_bump_reads_the_old_pins_or_the_new_ones",
            ),
            ("build-pipeline", "it", "at_once::a_build_beside_a_clean_loses_nothing"),
            (
                "build-pipeline",
                "it",
                "locks::races_over_several_names_of_one_output_leave_a_whole_image",
            ),
            (
                "build-pipeline",
                "it",
                "locks::races_over_several_names_of_one_archive_leave_a_whole_image",
            ),
            ("build-pipeline", "it", "signals::a_run_waits_for_another_one_until_that_is_killed"),
        ]),
    },
    Gate {
        number: 7,
        promise: "If a file that this tool writes is damaged, it is repaired, or reported with the next step",
        promised: 700,
        holds: Holds::Tests(&[
            ("build-pipeline", "it", "damage::a_damaged_archive_is_replaced_or_named"),
            ("build-pipeline", "it", "damage::a_damaged_layout_cache_or_state_heals_or_is_named"),
            ("build-pipeline", "it", "damage::a_damaged_list_of_receipts_is_named"),
            ("build-pipeline", "it", "damage::a_damaged_store_is_made_again"),
            ("build-pipeline", "it", "damage::damaged_dates_of_pins_are_begun_anew"),
            ("build-pipeline", "it", "damage::damaged_pins_and_locks_are_named"),
            ("sources", "it", "cache::damage_to_any_file_heals"),
        ]),
    },
    Gate {
        number: 8,
        promise: "Malformed files, patches and responses are refused with the position of the mistake",
        promised: 27 + 390 + 101 + 88 + 1_900 + 282,
        holds: Holds::Tests(&[
            ("oci", "it", "faults::answers_of_another_kind_are_refused"),
            ("oci", "lib", "tests::document::every_value_of_another_kind_is_refused_with_its_path"),
            (
                "oci",
                "lib",
                "tests::document::every_key_that_is_there_twice_or_in_capitals_is_refused_with_its_path",
            ),
            ("patcher", "lib", "tests::malformed::malformed_patches_are_refused_with_their_place"),
            ("pins", "malformed", "every_line_of_our_own_files_that_is_mistyped_is_named"),
            ("pins", "malformed", "there_are_enough_cases_and_no_name_occurs_twice"),
        ]),
    },
    Gate {
        number: 9,
        promise: "No input causes a panic, a hang or excessive memory use: 24 fuzz targets",
        promised: 9 * 200_000 + 14 * 50_000 + 1_000_000,
        holds: Holds::Tests(&[
            ("text", "lib", "sanitise::tests::fuzzed_text_does_nothing_to_a_terminal"),
            ("engine", "lib", "fuzz::fuzzed_streams_never_succeed_without_an_image"),
            ("engine", "lib", "fuzz::fuzzed_dockerfiles_keep_their_lines"),
            ("gpu-code", "it", "fuzz::fuzzed_files_are_refused_or_list_objects_inside_them"),
            ("gpu-code", "it", "fuzz::fuzzed_heads_are_refused_or_list_objects_inside_the_file"),
            ("lint", "fuzz", "fuzzed_texts_are_taken_apart_within_their_lines"),
            ("names", "fuzz", "fuzzed_image_references_have_one_spelling"),
            ("names", "fuzz", "fuzzed_versions_are_in_one_order"),
            ("oci", "lib", "client::challenge::tests::fuzzed_challenges_are_taken_apart"),
            ("oci", "lib", "tests::fuzz::fuzzed_documents_are_read_or_refused"),
            (
                "oci",
                "lib",
                "tests::fuzz::fuzzed_credential_files_give_a_credential_or_an_error_without_one",
            ),
            ("oci", "lib", "tests::fuzz::fuzzed_registries_conf_is_read_or_refused"),
            ("patcher", "fuzz", "fuzzed_patch_files_are_refused_or_applied_whole"),
            ("patcher", "fuzz", "fuzzed_patch_files_are_refused_or_applied_whole_the_other_half"),
            ("pins", "fuzz", "fuzzed_versions_are_read_or_refused"),
            ("pins", "fuzz", "fuzzed_tables_of_gpus_and_facts_are_read_or_refused"),
            ("pins", "fuzz", "fuzzed_tracks_are_read_or_refused"),
            ("pins", "fuzz", "fuzzed_package_locks_are_read_or_refused"),
            ("record", "lib", "tests::fuzz::fuzzed_records_are_read_or_refused"),
            ("sources", "lib", "archive::fuzz::fuzzed_tars_stay_in_their_root"),
            ("sources", "lib", "archive::fuzz::fuzzed_gzip_is_read_or_refused"),
            ("sources", "lib", "fuzz::fuzzed_refs_are_harmless"),
            ("sources", "lib", "fuzz::fuzzed_paths_stay_inside"),
            ("sources", "lib", "fuzz::fuzzed_urls_and_mirrors_reach_nothing_new"),
            ("sources", "lib", "fuzz::fuzzed_gitmodules_name_paths_inside"),
        ]),
    },
    Gate {
        number: 10,
        promise: "Every fault of a registry gets the right verdict",
        promised: 150,
        holds: Holds::Tests(&[
            ("oci", "it", "faults::statuses_that_pass_are_tried_three_times"),
            ("oci", "it", "faults::statuses_that_stay_are_tried_once"),
            ("oci", "it", "faults::broken_connections_are_tried_three_times"),
            ("oci", "it", "faults::silence_ends"),
            ("oci", "it", "faults::wrong_content_is_never_taken"),
            ("oci", "it", "faults::answers_of_another_kind_are_refused"),
        ]),
    },
    Gate {
        number: 11,
        promise: "No credential reaches another host, and no public registry or source can redirect a request into the internal network",
        promised: 43,
        holds: Holds::Tests(&[
            ("oci", "it", "leaks::redirects_carry_no_credential"),
            ("oci", "it", "leaks::another_host_that_asks_for_a_credential_gets_none"),
            ("oci", "it", "leaks::mirrors_get_their_own_credential_or_none"),
            (
                "oci",
                "it",
                "leaks::a_token_server_of_another_registry_gets_only_what_is_stored_for_the_asker",
            ),
            ("oci", "it", "leaks::upload_locations_elsewhere_are_not_even_asked"),
            ("oci", "it", "redirects::a_public_registry_cannot_send_us_inward"),
            ("oci", "it", "redirects::token_servers_of_a_public_registry_are_judged_alike"),
            ("oci", "it", "redirects::uploads_go_on_at_the_registry_only"),
            (
                "sources",
                "it",
                "archives::a_redirect_to_a_name_with_an_internal_address_is_not_followed",
            ),
        ]),
    },
    Gate {
        number: 12,
        promise: "Only pinned content is built, whatever changes during the build",
        promised: 20 + 9 + 10,
        holds: Holds::Tests(&[
            ("build-pipeline", "it", "bump::a_tag_that_moved_is_not_followed"),
            (
                "build-pipeline",
                "it",
                "flips::a_tag_that_flips_during_a_build_gives_one_image_or_the_other_and_never_a_mixture",
            ),
            (
                "build-pipeline",
                "it",
                "flips::a_registry_that_changes_its_content_at_any_request_is_found_out",
            ),
            (
                "build-pipeline",
                "it",
                "flips::a_pinned_digest_that_is_gone_is_not_replaced_by_what_the_tag_has_now",
            ),
            (
                "build-pipeline",
                "it",
                "lock::a_lock_is_known_by_what_it_was_made_from_and_a_replaced_file_is_refused",
            ),
            (
                "build-pipeline",
                "it",
                "patched_builds::a_patch_that_does_not_come_to_what_the_plan_says_stops_the_build_before_any_run",
            ),
        ]),
    },
    Gate {
        number: 13,
        promise: "No pin is downgraded, moved or lost without a warning",
        promised: 12,
        holds: Holds::Tests(&[
            ("build-pipeline", "it", "bump::a_vllm_that_needs_another_torch_is_refused"),
            ("build-pipeline", "it", "rollback::a_source_is_not_rolled_back_mixed_up_or_frozen"),
            (
                "build-pipeline",
                "it",
                "rollback::a_pre_release_as_newest_and_a_slow_clock_change_nothing",
            ),
            (
                "build-pipeline",
                "it",
                "rollback::an_archive_is_not_rolled_back_replaced_or_taken_where_it_was_withdrawn",
            ),
            (
                "build-pipeline",
                "it",
                "rollback::an_image_is_not_rolled_back_and_a_registry_that_never_ends_is_left",
            ),
        ]),
    },
    Gate {
        number: 14,
        promise: "The same inputs give the same plan and the same image in any environment",
        promised: 250 + 20 + 666,
        holds: Holds::Tests(&[
            (
                "build-pipeline",
                "it",
                "matrix::the_same_files_give_the_same_image_whatever_git_knows_and_verify_agrees",
            ),
            ("build-pipeline", "it", "determinism::a_rebuild_gives_the_same_digest_every_time"),
            ("build-pipeline", "it", "determinism::plans_are_byte_equal_in_50_surroundings"),
            (
                "build-pipeline",
                "it",
                "determinism::rehearsed_images_have_one_digest_in_50_surroundings",
            ),
        ]),
    },
    Gate {
        number: 15,
        promise: "A patch is applied exactly or not at all: tested on real releases and on modified texts",
        promised: 30 + 10_000 + 20,
        holds: Holds::Tests(&[
            ("build-pipeline", "it", "patch_trees::line_ends_marks_modes_and_neighbours_stay"),
            ("executor", "releases", "verdicts_on_vllm_are_those_of_the_matrix"),
            ("executor", "releases", "verdicts_on_flash_attention_are_those_of_the_matrix"),
            ("executor", "releases", "verdicts_on_llama_cpp_are_those_of_the_matrix"),
            ("executor", "releases", "verdicts_on_aiter_are_those_of_the_matrix"),
            ("patcher", "lib", "tests::properties::edits_are_all_or_nothing_and_idempotent"),
        ]),
    },
    Gate {
        number: 16,
        promise: "No path points outside a tree: archives, git trees, patched trees",
        promised: 48,
        holds: Holds::Tests(&[
            ("build-pipeline", "it", "patch_trees::nothing_outside_of_the_tree_is_read_or_written"),
            ("build-pipeline", "it", "patch_trees::a_link_that_appears_meanwhile_leads_nowhere"),
            ("sources", "it", "git::submodules_that_are_refused"),
            ("sources", "it", "git::trees_that_are_refused"),
            ("sources", "lib", "archive::tests::breakouts"),
        ]),
    },
    Gate {
        number: 17,
        promise: "Text from outside never controls a terminal: 18 payloads in 5 output formats",
        promised: 90,
        holds: Holds::Tests(&[(
            "build-pipeline",
            "it",
            "payloads::no_payload_acts_on_a_terminal_in_any_form_of_output",
        )]),
    },
    Gate {
        number: 18,
        promise: "No secret that is passed in is printed or stored: 30 secrets, through every command",
        promised: 30,
        holds: Holds::Tests(&[
            ("build-pipeline", "it", "secrets::builds_and_what_looks_at_them_tell_no_secret"),
            (
                "build-pipeline",
                "it",
                "secrets::what_helpers_and_signed_redirects_know_is_told_to_nobody",
            ),
            (
                "build-pipeline",
                "it",
                "secrets::what_is_typed_with_a_secret_is_refused_and_not_repeated",
            ),
            ("build-pipeline", "it", "secrets::a_broken_data_file_is_shown_without_its_secrets"),
        ]),
    },
    Gate {
        number: 19,
        promise: "Signals, suspensions and closed readers end a run cleanly",
        promised: 160,
        holds: Holds::Tests(&[
            (
                "build-pipeline",
                "it",
                "interrupts::a_build_in_an_engine_that_is_interrupted_leaves_nothing_running",
            ),
            (
                "build-pipeline",
                "it",
                "interrupts::a_build_that_is_interrupted_at_random_is_recorded_and_leaves_a_whole_image",
            ),
            ("build-pipeline", "it", "interrupts::a_build_that_is_suspended_goes_on"),
            (
                "build-pipeline",
                "it",
                "interrupts::a_bump_or_lock_that_is_interrupted_at_random_leaves_whole_files",
            ),
            (
                "build-pipeline",
                "it",
                "interrupts::a_reader_that_goes_away_ends_a_run_without_a_word",
            ),
        ]),
    },
    Gate {
        number: 20,
        promise: "Documents with another schema number are recognised, and are either read or left unchanged",
        promised: 44 + 2 + 15 + 3 + 3 + 3,
        holds: Holds::Tests(&[
            (
                "build-pipeline",
                "it",
                "old_and_new::a_file_of_another_schema_is_refused_by_its_number",
            ),
            (
                "build-pipeline",
                "it",
                "old_and_new::a_lock_of_a_newer_program_is_not_looked_up_anew",
            ),
            ("build-pipeline", "it", "old_and_new::receipts_of_another_schema_are_left_alone"),
            (
                "build-pipeline",
                "it",
                "old_and_new::what_is_remembered_by_a_newer_program_is_not_forgotten",
            ),
            ("build-pipeline", "it", "old_and_new::records_of_another_schema_are_named_and_kept"),
            ("build-pipeline", "it", "old_and_new::documents_of_the_first_release_are_read"),
        ]),
    },
    Gate {
        number: 21,
        promise: "Dependencies and workflows are checked, and two release builds have the same bytes, with an SBOM",
        promised: 3,
        holds: Holds::Chore(supply::gate),
    },
    Gate {
        number: 22,
        promise: "A change in any recorded field is detected, and reported with the field's name",
        promised: 15,
        holds: Holds::Tests(&[
            ("build-pipeline", "it", "verify::every_claim_of_a_label_is_checked"),
            ("record", "lib", "tests::verify::a_change_of_the_config_is_named_exactly"),
            ("record", "lib", "tests::verify::a_change_of_the_manifest_is_named_exactly"),
        ]),
    },
    Gate {
        number: 23,
        promise: "A command changes only its own files in the project and in the home folder",
        promised: 38,
        holds: Holds::Tests(&[
            (
                "build-pipeline",
                "it",
                "inventory::a_build_in_an_engine_changes_its_output_and_our_own_folders",
            ),
            ("build-pipeline", "it", "inventory::a_lock_changes_its_files_and_the_cache"),
            (
                "build-pipeline",
                "it",
                "inventory::each_command_changes_what_is_its_own_and_nothing_else",
            ),
        ]),
    },
    Gate {
        number: 24,
        promise: "A build with a log of 1 GB uses less than 100 MB of memory, and ten hours of a quiet build reach no time limit",
        promised: 2,
        holds: Holds::Tests(&[
            ("engine", "it", "faults::a_long_log_needs_no_memory"),
            ("engine", "it", "faults::a_build_that_says_a_word_now_and_then_may_take_ten_hours"),
        ]),
    },
    Gate {
        number: 25,
        promise: "A job that is killed at any moment leaves a correct shared store, and the next run succeeds",
        promised: 200 + 200,
        holds: Holds::Tests(&[
            (
                "build-pipeline",
                "it",
                "exports::a_workflow_that_is_killed_leaves_a_correct_store_and_the_next_run_succeeds",
            ),
            (
                "build-pipeline",
                "it",
                "stores::after_kills_at_random_moments_the_store_is_right_and_the_next_run_ends_right",
            ),
        ]),
    },
    Gate {
        number: 26,
        promise: "Three machines with one store build no step twice, and take at most 45 % of the time of one machine",
        promised: 6,
        holds: Holds::Tests(&[(
            "build-pipeline",
            "it",
            "stores::three_machines_build_each_step_once_and_the_images_of_one_machine",
        )]),
    },
];
