"""The contract on a real llama.cpp server: which story of `tests/local_contract.py` stands for which test of the contract,
and why the others cannot be told there."""

_STREAMS = "test_it_streams_counts_and_stops_at_the_limit"
_CALLS = "test_it_calls_a_tool_and_answers_from_the_result"
_HISTORY = "test_whatever_a_history_holds_is_accepted"
_FAULTS = "test_a_wrong_key_is_refused_and_is_in_no_error"
_STOPPED = "test_a_stopped_call_ends_has_cost_something_and_the_next_is_answered"
_SIDE = "test_calls_side_by_side_do_not_mix_and_a_closed_provider_may_be_used_again"
_LEVELS = "test_every_level_of_thinking_is_accepted"
_PICTURE = "test_a_picture_that_it_cannot_see_is_refused_and_not_tried_again"
_ADDRESS = "test_another_address_is_told_as_one"

TOLD = {
    "test_words_are_told_in_order_and_the_message_is_the_whole": _STREAMS,
    "test_an_answer_that_the_limit_cut_says_so": _STREAMS,
    "test_usage_counts_what_was_read_written_and_cached": _STREAMS,
    "test_stop_reasons_are_ours": _STREAMS,
    "test_a_slow_answer_is_no_silence": _STREAMS,
    "test_other_servers_get_the_old_name_of_the_output_limit": _STREAMS,
    "test_a_tool_loop_comes_back_as_the_service_wants_it": _CALLS,
    "test_one_tool_call": _CALLS,
    "test_calls_of_another_model_are_taken_by_services_that_want_their_state": _CALLS,
    "test_an_id_that_the_conversation_has_already_is_replaced": _CALLS,
    "test_a_thought_a_word_and_calls_keep_their_order": _CALLS,
    "test_a_whole_tool_loop_with_images_is_accepted": _HISTORY,
    "test_every_thinking_level_is_accepted": _LEVELS,
    "test_every_model_answers_with_tools_at_every_level": _LEVELS,
    "test_headers_params_and_compat_reach_the_request": "test_headers_and_fields_of_the_config_reach_it",
    "test_each_fault_has_its_error": _FAULTS,
    "test_the_key_is_in_no_error": _FAULTS,
    "test_every_services_overflow_is_one_on_every_wire": "test_what_does_not_fit_is_an_overflow",
    "test_pictures_of_people_and_of_tools_are_accepted": _PICTURE,
    "test_an_illegal_request_is_refused_with_the_services_words": (
        "test_an_illegal_request_is_refused_with_the_servers_words"
    ),
    "test_a_service_that_is_not_there_is_named_with_its_setting": _ADDRESS,
    "test_a_call_that_takes_too_long_is_ended": "test_a_call_that_takes_too_long_is_ended",
    "test_what_a_stopped_call_had_cost_is_told": _STOPPED,
    "test_a_cancelled_call_ends_at_once_and_leaves_the_line": _STOPPED,
    "test_a_service_is_asked_what_it_offers": (
        "test_it_says_what_it_has_and_how_large_its_window_is"
    ),
    "test_a_closed_provider_may_be_used_again": _SIDE,
    "test_many_calls_side_by_side_do_not_mix": _SIDE,
    "test_a_kept_connection_that_the_server_has_closed_is_replaced_at_once": _LEVELS,
}

_SCRIPT = "a real model cannot be told what to say, or to break off, in this very way"
_OTHER = "it is about another service's rules or fields, which llama.cpp does not have"
_THINKS = "the model does not think"
_HERE = "no server takes part in it"

LEFT_OUT = {
    "test_several_tool_calls_at_once_keep_their_order": _SCRIPT,
    "test_a_call_without_arguments_has_empty_input": _SCRIPT,
    "test_an_error_in_the_middle_of_an_answer_is_told": _SCRIPT,
    "test_a_model_that_declines_is_no_answer_and_has_cost_something": _SCRIPT,
    "test_an_answer_that_breaks_off_has_cost_something": _SCRIPT,
    "test_an_overloaded_service_says_when_to_come_back": _SCRIPT,
    "test_a_short_trouble_is_tried_again": _SCRIPT,
    "test_a_line_that_breaks_before_the_answer_is_tried_again": _SCRIPT,
    "test_a_long_wait_is_told_and_not_slept": _SCRIPT,
    "test_silence_in_the_middle_of_an_answer_ends_it": _SCRIPT,
    "test_a_stream_under_another_name_is_read_all_the_same": _SCRIPT,
    "test_an_answer_is_whole_although_the_server_never_ends_it": _SCRIPT,
    "test_half_a_surrogate_pair_spoils_no_answer": _SCRIPT,
    "test_an_error_event_need_not_be_json": _SCRIPT,
    "test_missing_usage_is_no_usage": _SCRIPT,
    "test_reasoning_under_its_other_name": _SCRIPT,
    "test_call_deltas_may_be_interleaved_and_their_names_repeated": _SCRIPT,
    "test_calls_without_ids_get_the_same_ids_every_time": _SCRIPT,
    "test_calls_that_share_an_index_or_have_none_are_told_apart_by_id": _SCRIPT,
    "test_arguments_that_are_no_object_reach_the_loop_as_raw_text_and_can_be_answered": _SCRIPT,
    "test_an_anthropic_event_without_its_fields_is_told": _SCRIPT,
    "test_an_anthropic_call_cut_by_the_output_limit_is_raw_text_too": _SCRIPT,
    "test_thinking_is_told_apart_from_words": _THINKS,
    "test_there_is_room_for_twelve_thousand_tokens_of_thought": _THINKS,
    "test_more_room_is_more_room_and_never_more_than_the_model_has": _THINKS,
    "test_anthropic_thinking_goes_back_as_it_came": _THINKS,
    "test_thinking_behind_a_changed_beginning_is_left_out_and_the_call_repeated_once": _THINKS,
    "test_a_level_that_is_refused_is_stepped_down_and_remembered": _THINKS,
    "test_a_model_that_cannot_think_is_asked_without_and_not_again": _THINKS,
    "test_not_thinking_is_said_to_models_that_think_unasked": _THINKS,
    "test_newer_claudes_set_their_own_thinking_budget": _HERE,
    "test_a_budget_waits_for_the_next_message_when_calls_came_without_thinking": _HERE,
    "test_a_base_url_that_is_none_is_told": _HERE,
    "test_a_key_that_no_header_could_carry_is_told_without_quoting_it": _HERE,
    "test_importing_a_provider_does_not_import_the_http_client": _HERE,
    "test_a_missing_package_says_what_to_install": _HERE,
    "test_making_a_provider_asks_nobody": _HERE,
    "test_results_go_first_in_anthropics_user_message": _HERE,
    "test_openais_tool_images_follow_all_results_in_a_user_message": _HERE,
    "test_every_item_of_the_responses_wire_says_what_it_is": _HERE,
    "test_a_pdf_is_accepted_as_it_is_or_in_its_words": "the model reads no files; they go to it in words",
    "test_anthropic_marks_tools_system_and_conversation_for_its_cache": _OTHER,
    "test_anthropics_other_stop_reasons": _OTHER,
    "test_four_cache_marks_one_where_the_last_request_ended": _OTHER,
    "test_marks_of_an_hour": _OTHER,
    "test_fields_of_geminis_config_are_added_to_ours": _OTHER,
    "test_a_limit_of_tokens_a_minute_is_no_overflow": _OTHER,
    "test_ollama_is_told_its_window_and_not_to_cut": _OTHER,
}
